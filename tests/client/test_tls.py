"""TLS: chains that kubectl accepts are accepted, and nothing else; a refused certificate is no outage."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from hook.errors import SettingsError, UntrustedError
from hook.kube import client, tls
from hook.kube.connection import Connection
from hook.kube.resources import NODES
from tests.chart.rendering import ROOT
from tests.client.access import account, connected, kubeconfig
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
CLIENT: Final = """
import socket, ssl, sys
from hook.kube import tls

def answer(context):
    try:
        with socket.create_connection(("127.0.0.1", int(sys.argv[2]))) as plain:
            with context.wrap_socket(plain, server_hostname=sys.argv[3]):
                return "accepted"
    except ssl.SSLCertVerificationError as error:
        return tls.refusal(error)

print(answer(ssl.create_default_context(cafile=sys.argv[1])))
print(answer(tls.context(tls.Trust(open(sys.argv[1], "rb").read()))))
"""
"""Prints what the default context of an interpreter says of a server, and what ours says."""
STRICT: Final = "import ssl, sys; sys.exit(not ssl.create_default_context().verify_flags & ssl.VERIFY_X509_STRICT)"


def strict_interpreters() -> list[str]:
    """Return the interpreters on this machine that verify strictly by default, as Python 3.13 and later do."""
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    named = [f"python3.{minor}" for minor in range(13, 20)]
    found = [sys.executable, *filter(None, map(shutil.which, named))]
    found += [str(path) for name in named for path in versions.glob(f"*/bin/{name}")]
    return [each for each in found if subprocess.call([each, "-c", STRICT], stderr=subprocess.DEVNULL) == 0]


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
    """By a pod and by a kubeconfig alike."""
    theirs, its = CHAINS[chain]
    authority = Authority(tmp_path, theirs)
    with serving(GRANTED, tls=server_side(authority.sign(extensions=its))) as server:
        pod = account(tmp_path, authority.certificate, server.port, monkeypatch)
        client.connect("", "", str(pod)).send("get", NODES, "gpu-0")
        field = f"certificate-authority: {authority.certificate}"
        connected(kubeconfig(tmp_path, f"https://127.0.0.1:{server.port}", field)).send("get", NODES, "gpu-0")
        assert len(server.asked) == 2


def test_python_that_verifies_strictly_accepts_it_too(tmp_path: Path) -> None:
    """The image has such a Python. Its own context refuses these chains; ours still refuses another name."""
    interpreters = strict_interpreters()
    if not interpreters:
        pytest.skip("no Python 3.13 or later is on the PATH or in pyenv")
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    for name, (theirs, its) in CHAINS.items():
        authority = Authority(tmp_path, theirs)
        with serving(GRANTED, tls=server_side(authority.sign(extensions=its))) as server:
            arguments = [CLIENT, str(authority.certificate), str(server.port)]
            for interpreter in interpreters:
                for host, trusted in (("127.0.0.1", True), ("localhost", False)):
                    command = [interpreter, "-c", *arguments, host]
                    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
                    default, ours = done.stdout.splitlines() or ["", done.stderr]
                    assert default != "accepted", (name, interpreter)
                    assert (ours == "accepted") is trusted, (name, interpreter, host, ours)


@pytest.mark.parametrize("ending", ["an intermediate authority", "the server's own certificate"])
def test_any_certificate_of_the_authority_ends_a_chain(ending: str, tmp_path: Path) -> None:
    """As with Go: neither the root nor an authority's signature is needed."""
    root = Authority(tmp_path)
    extensions = {name: value for name, value in STRICT_AUTHORITY.items() if name != "authorityKeyIdentifier"}
    authority = Authority(tmp_path, pair=root.sign(extensions=extensions))
    pair = authority.sign()
    trusted = authority.certificate if ending == "an intermediate authority" else pair.certificate
    with serving(GRANTED, tls=server_side(pair)) as server:
        file = kubeconfig(tmp_path, f"https://127.0.0.1:{server.port}", f"certificate-authority: {trusted}")
        connected(file).send("get", NODES, "gpu-0")


REFUSED: Final = {
    "another authority": "self-signed certificate|unable to get local issuer certificate",
    "another name": "IP address mismatch",
    "another name that is asked for": "Hostname mismatch",
    "only a common name": "mismatch",
    "expired": "expired",
}


def refused_server(case: str, folder: Path) -> tuple[Pair, Path, str]:
    """Return the server's certificate, the authority that the client has, and the name that it asks for."""
    authority = Authority(folder)
    known = Authority(folder).certificate if case == "another authority" else authority.certificate
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
    named = f", tls-server-name: {name}" if name else ""
    with serving(GRANTED, tls=server_side(pair)) as server:
        host = f"https://127.0.0.1:{server.port}"
        with pytest.raises(UntrustedError, match=REFUSED[case]) as caught:
            connected(kubeconfig(tmp_path, host, f"certificate-authority: {known}{named}")).send("get", NODES, "gpu-0")
        assert host in str(caught.value)
        assert server.asked == []
        connected(kubeconfig(tmp_path, host, f"insecure-skip-tls-verify: true{named}")).send("get", NODES, "gpu-0")
        assert len(server.asked) == 1


def test_the_name_to_prove_may_be_given(tmp_path: Path) -> None:
    """The field tls-server-name counts in place of the host."""
    authority = Authority(tmp_path)
    with serving(GRANTED, tls=server_side(authority.sign("DNS:inside.example"))) as server:
        fields = f"certificate-authority: {authority.certificate}, tls-server-name: inside.example"
        file = kubeconfig(tmp_path, f"https://127.0.0.1:{server.port}", fields)
        connected(file).send("get", NODES, "gpu-0")


def test_a_refused_certificate_is_no_outage(tmp_path: Path) -> None:
    """Each command ends at once with exit 1 and the reason, and does not say that another try may help."""
    pair, known, _name = refused_server("another authority", tmp_path)
    with serving(GRANTED, tls=server_side(pair)) as server:
        file = kubeconfig(tmp_path, f"https://127.0.0.1:{server.port}", f"certificate-authority: {known}")
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


def test_an_authority_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """The field, and why; the file where there is one."""
    authority = Authority(tmp_path)
    (tmp_path / "empty").touch()
    (tmp_path / "damaged").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    places = {"folder": str(tmp_path), "key": str(authority.pair.key), "ca": str(authority.certificate)}
    for fields, problem in UNUSABLE.items():
        file = kubeconfig(tmp_path, "https://127.0.0.1:1", fields.format(**places))
        with pytest.raises(SettingsError) as caught:
            connected(file)
        assert problem.format(**places) in str(caught.value), fields
        assert str(file) in str(caught.value), fields


def test_text_between_certificates_is_ignored(tmp_path: Path) -> None:
    """In any encoding, as tools write it that make bundles."""
    authority = Authority(tmp_path)
    bundle = "# Zertifizierungsstelle für alle\n".encode("latin-1") + authority.certificate.read_bytes() * 2
    with serving(GRANTED, tls=server_side(authority.sign())) as server:
        made = Connection(f"https://127.0.0.1:{server.port}", trust=tls.Trust(bundle))
        client.Api(made).send("get", NODES, "gpu-0")
