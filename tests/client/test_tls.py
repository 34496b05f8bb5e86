"""TLS: chains that kubectl accepts are accepted, and nothing else; a refused certificate is no outage."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from hook.errors import SettingsError, UntrustedError
from hook.kube import client, tls
from hook.kube.connection import Connection
from hook.kube.resources import NODES
from tests.client.access import account, connected, kubeconfig, trusting
from tests.client.certificates import STRICT_AUTHORITY, Authority, Pair, server_side
from tests.client.server import GRANTED, serving
from tests.process.program import run

NO_IDENTIFIERS: Final = {"subjectKeyIdentifier": "none"}
CHAINS: Final[Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]]] = {
    "no authority key identifier": ({}, {"authorityKeyIdentifier": "none"}),
    "no subject key identifier": (NO_IDENTIFIERS, {"authorityKeyIdentifier": "none"}),
    "no key usage of the authority": ({"keyUsage": ""}, {}),
    "basic constraints are not critical": ({"basicConstraints": "CA:TRUE"}, {}),
}
"""Extensions of the authority and of the server that strict verification refuses."""


@pytest.fixture
def _strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this interpreter verify strictly by default, whichever it is."""
    lenient = ssl.create_default_context

    def strict(*arguments: object, **named: object) -> ssl.SSLContext:
        made: ssl.SSLContext = lenient(*arguments, **named)  # type: ignore[arg-type] # whatever it takes
        made.verify_flags |= ssl.VERIFY_X509_STRICT
        return made

    monkeypatch.setattr(ssl, "create_default_context", strict)


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.usefixtures("_strict")
def test_a_chain_that_kubectl_accepts_is_accepted(chain: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a pod and by a kubeconfig alike, although the interpreter's own context refuses it."""
    theirs, its = CHAINS[chain]
    authority = Authority(tmp_path, theirs)
    with serving(GRANTED, tls=server_side(authority.sign(extensions=its))) as server:
        pod = account(tmp_path, authority.certificate, server.port, monkeypatch)
        client.connect("", "", str(pod)).send("get", NODES, "gpu-0")
        trusting(tmp_path, authority, server.port).send("get", NODES, "gpu-0")
        assert len(server.asked) == 2
        strict = ssl.create_default_context(cafile=authority.certificate)
        with socket.create_connection(("127.0.0.1", server.port)) as plain, pytest.raises(ssl.SSLCertVerificationError):
            strict.wrap_socket(plain, server_hostname="127.0.0.1")


@pytest.mark.parametrize("ending", ["an intermediate authority", "the server's own certificate"])
def test_any_certificate_of_the_authority_ends_a_chain(ending: str, tmp_path: Path) -> None:
    """As with Go: neither the root nor an authority's signature is needed."""
    root = Authority(tmp_path)
    extensions = {name: value for name, value in STRICT_AUTHORITY.items() if name != "authorityKeyIdentifier"}
    authority = Authority(tmp_path, pair=root.sign(extensions=extensions))
    pair = authority.sign()
    trusted = authority if ending == "an intermediate authority" else Authority(tmp_path, pair=pair)
    with serving(GRANTED, tls=server_side(pair)) as server:
        trusting(tmp_path, trusted, server.port).send("get", NODES, "gpu-0")


REFUSED: Final = {
    "another authority": "self-signed certificate|unable to get local issuer certificate",
    "another name": "IP address mismatch",
    "another name that is asked for": "Hostname mismatch",
    "only a common name": "mismatch",
    "expired": "expired",
}


def refused_server(case: str, folder: Path) -> tuple[Pair, Authority, str]:
    """Return the server's certificate, the authority that the client has, and the name that it asks for."""
    authority = Authority(folder)
    known = Authority(folder) if case == "another authority" else authority
    names = "DNS:elsewhere.example" if case == "another name" else "IP:127.0.0.1"
    if case == "only a common name":
        return authority.sign(subject="here.example", extensions={"subjectAltName": ""}), known, "here.example"
    days = -1 if case == "expired" else 2
    return authority.sign(names, days=days), known, "here.example" if "asked" in case else ""


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.usefixtures("_strict")
def test_a_certificate_that_proves_nothing_is_refused(case: str, tmp_path: Path) -> None:
    """With the reason, and before anything is sent; unless the kubeconfig asks for no proof."""
    pair, known, name = refused_server(case, tmp_path)
    named = f"tls-server-name: {name}" if name else ""
    with serving(GRANTED, tls=server_side(pair)) as server:
        host = f"https://127.0.0.1:{server.port}"
        with pytest.raises(UntrustedError, match=REFUSED[case]) as caught:
            trusting(tmp_path, known, server.port, cluster=named).send("get", NODES, "gpu-0")
        assert host in str(caught.value)
        assert server.asked == []
        connected(kubeconfig(tmp_path, host, f"insecure-skip-tls-verify: true, {named}")).send("get", NODES, "gpu-0")
        assert len(server.asked) == 1


def test_the_name_to_prove_may_be_given(tmp_path: Path, authority: Authority) -> None:
    """The field tls-server-name counts in place of the host."""
    with serving(GRANTED, tls=server_side(authority.sign("DNS:inside.example"))) as server:
        cluster = "tls-server-name: inside.example"
        trusting(tmp_path, authority, server.port, cluster=cluster).send("get", NODES, "gpu-0")


def test_a_refused_certificate_is_no_outage(tmp_path: Path) -> None:
    """Each command ends at once with exit 1 and the reason, and does not say that another try may help."""
    pair, known, _name = refused_server("another authority", tmp_path)
    with serving(GRANTED, tls=server_side(pair)) as server:
        file = kubeconfig(tmp_path, f"https://127.0.0.1:{server.port}", f"certificate-authority: {known.certificate}")
        for command in (("run", "--job-name=job"), ("controller", "--listen=127.0.0.1:0"), ("status",)):
            began = time.monotonic()
            done = run(tmp_path, *command, f"--kubeconfig={file}")
            assert time.monotonic() - began < 20, command  # The patience of a run is minutes.
            assert done.code == 1, (command, done.said)
            assert "certificate of https://127.0.0.1" in done.said, command
            assert "again" not in done.said, (command, done.said)
            assert "continuing" not in done.said, (command, done.said)


UNUSABLE: Final = {
    "certificate-authority: {folder}/gone": "certificate-authority: No such file or directory: {folder}/gone",
    "certificate-authority: {folder}": "certificate-authority: Is a directory",
    "certificate-authority: ~nouser/ca": "certificate-authority: No such file or directory: {folder}/~nouser/ca",
    "certificate-authority: empty": "certificate-authority: it contains no certificate",
    "certificate-authority: {key}": "certificate-authority: it contains no certificate",
    "certificate-authority: damaged": "certificate-authority: it contains a certificate that cannot be read",
    "certificate-authority-data: '###'": "certificate-authority-data: ",
    "certificate-authority-data: ZW1wdHk=": "certificate-authority-data: it contains no certificate",
    "certificate-authority: {ca}, insecure-skip-tls-verify: true": "insecure-skip-tls-verify and certificate-authority",
}


def test_an_authority_that_cannot_be_used_is_named(tmp_path: Path, authority: Authority) -> None:
    """The field, and why; the file where there is one."""
    (tmp_path / "empty").touch()
    (tmp_path / "damaged").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    places = {"folder": str(tmp_path), "key": str(authority.pair.key), "ca": str(authority.certificate)}
    for fields, problem in UNUSABLE.items():
        file = kubeconfig(tmp_path, "https://127.0.0.1:1", fields.format(**places))
        with pytest.raises(SettingsError) as caught:
            connected(file)
        assert problem.format(**places) in str(caught.value), fields
        assert str(file) in str(caught.value), fields


def test_text_between_certificates_is_ignored(authority: Authority) -> None:
    """In any encoding, as tools write it that make bundles."""
    bundle = "# Zertifizierungsstelle für alle\n".encode("latin-1") + authority.certificate.read_bytes() * 2
    with serving(GRANTED, tls=server_side(authority.sign())) as server:
        made = Connection(f"https://127.0.0.1:{server.port}", trust=tls.Trust(bundle))
        client.Api(made).send("get", NODES, "gpu-0")
