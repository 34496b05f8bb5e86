"""TLS: chains that kubectl accepts are accepted, and nothing else; a refused certificate is no outage."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from typing import Final

import pytest

from hook.errors import UntrustedError
from hook.kube import client, tls
from hook.kube.connection import Connection
from hook.run.restarts import Restarter
from tests.client.access import (
    STRICT_AUTHORITY,
    Authority,
    Pair,
    account,
    connected,
    kubeconfig,
    server_side,
    trusting,
)
from tests.client.runs import DONE, reading, stale_pods
from tests.client.server import GRANTED, ONE, serving
from tests.client.shown import Shown
from tests.fixtures.cluster import cluster
from tests.process.program import run

NO_IDENTIFIERS: Final = {"subjectKeyIdentifier": "none"}


@pytest.fixture
def _strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this interpreter verify strictly by default, whichever it is."""
    lenient = ssl.create_default_context

    def strict(*arguments: object, **named: object) -> ssl.SSLContext:
        made: ssl.SSLContext = lenient(*arguments, **named)  # type: ignore[arg-type] # whatever it takes
        made.verify_flags |= ssl.VERIFY_X509_STRICT
        return made

    monkeypatch.setattr(ssl, "create_default_context", strict)


@pytest.mark.parametrize(
    ("authoritys", "servers"),
    [
        pytest.param({}, {"authorityKeyIdentifier": "none"}, id="no authority key identifier"),
        pytest.param(NO_IDENTIFIERS, {"authorityKeyIdentifier": "none"}, id="no subject key identifier"),
        pytest.param({"keyUsage": ""}, {}, id="no key usage of the authority"),
        pytest.param({"basicConstraints": "CA:TRUE"}, {}, id="basic constraints are not critical"),
    ],
)
@pytest.mark.usefixtures("_strict")
def test_a_chain_that_kubectl_accepts_is_accepted(
    authoritys: dict[str, str], servers: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a pod and by a kubeconfig alike, although the interpreter's own context refuses it."""
    authority = Authority(tmp_path, authoritys)
    with serving(GRANTED, tls=server_side(authority.sign(extensions=servers))) as server:
        pod = account(tmp_path, authority.certificate, server.port, monkeypatch)
        client.connect("", "", str(pod)).send(*ONE)
        trusting(tmp_path, authority, server.port).send(*ONE)
        strict = ssl.create_default_context(cafile=authority.certificate)
        with socket.create_connection(("127.0.0.1", server.port)) as plain, pytest.raises(ssl.SSLCertVerificationError):
            strict.wrap_socket(plain, server_hostname="127.0.0.1")


@pytest.mark.parametrize("ending", ["an intermediate authority", "the server's own certificate"])
def test_any_certificate_of_the_authority_ends_a_chain(ending: str, tmp_path: Path) -> None:
    """As with Go: neither the root nor an authority's signature is needed. Text between certificates is ignored."""
    extensions = {name: value for name, value in STRICT_AUTHORITY.items() if name != "authorityKeyIdentifier"}
    authority = Authority(tmp_path, pair=Authority(tmp_path).sign(extensions=extensions))
    pair = authority.sign()
    trusted = authority if ending == "an intermediate authority" else Authority(tmp_path, pair=pair)
    bundle = "# Zertifizierungsstelle für alle\n".encode("latin-1") + trusted.certificate.read_bytes() * 2
    with serving(GRANTED, tls=server_side(pair)) as server:
        client.Api(Connection(f"https://127.0.0.1:{server.port}", trust=tls.Trust(bundle))).send(*ONE)
        assert len(server.asked) == 1


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
            trusting(tmp_path, known, server.port, cluster=named).send(*ONE)
        assert host in str(caught.value)
        assert server.asked == []
        connected(kubeconfig(tmp_path, host, f"insecure-skip-tls-verify: true, {named}")).send(*ONE)
        assert len(server.asked) == 1


def test_the_name_to_prove_may_be_given(tmp_path: Path, authority: Authority) -> None:
    """The field tls-server-name counts in place of the host."""
    with serving(GRANTED, tls=server_side(authority.sign("DNS:inside.example"))) as server:
        trusting(tmp_path, authority, server.port, cluster="tls-server-name: inside.example").send(*ONE)
        assert len(server.asked) == 1


@pytest.mark.parametrize(
    "command", [("run", "--job-name=job"), ("controller", "--listen=127.0.0.1:0"), ("status",)], ids=" ".join
)
def test_a_refused_certificate_is_no_outage(command: tuple[str, ...], tmp_path: Path) -> None:
    """Each command ends with exit 1 and the reason at its first request. Nothing is tried again."""
    pair, known, _name = refused_server("another authority", tmp_path)
    with serving(GRANTED, tls=server_side(pair)) as server:
        file = kubeconfig(tmp_path, f"https://127.0.0.1:{server.port}", f"certificate-authority: {known.certificate}")
        done = run(tmp_path, *command, f"--kubeconfig={file}")
    assert done.code == 1, done.said
    assert "certificate of https://127.0.0.1" in done.said
    assert [word for word in ("again", "continuing") if word in done.said] == [], done.said


def test_a_certificate_that_is_refused_later_ends_a_process(
    tmp_path: Path, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    """Also while open watches deliver: no write and no second read is tried again. The next process reads anew."""
    context, stranger = server_side(authority.sign()), Authority(tmp_path).sign()
    with serving(Shown(cluster()), tls=context) as server:
        server.api = trusting(tmp_path, authority, server.port)
        with reading(server) as run:
            context.load_cert_chain(stranger.certificate, stranger.key)
            for lasting in (False, True):
                with pytest.raises(UntrustedError):
                    list(Restarter(server.api, lasting=lasting).act(stale_pods("a"), 60))
            with pytest.raises(UntrustedError):
                run._confirmed(DONE)
        assert "again" not in caplog.text
        assert server.writes == []
