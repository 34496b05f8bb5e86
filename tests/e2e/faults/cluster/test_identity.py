"""Permissions are taken away, and tokens expire, while a run is under way; and a run that is stopped for minutes.

The API server remembers a token that it has accepted for ten seconds, also beyond its end.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import pytest

from devcluster.access import Access, ApiError
from devcluster.client import Api, path
from tests.e2e.acts import PATIENCE
from tests.e2e.identity import HOME, RBAC, Right, allow, charted, kubeconfig
from tests.e2e.lab import PLUGIN_NAMESPACE

if TYPE_CHECKING:
    from pathlib import Path

    from devcluster.cluster import Cluster
    from tests.e2e.acts import Run
    from tests.e2e.faults.cluster.doorway import Doorway
    from tests.e2e.faults.cluster.ground import Ground

ISSUER: Final = "https://kubernetes.default.svc"
"""As devcluster.components starts the API server; also the audience that it asks for."""
LEEWAY_SECONDS: Final = 60
"""So much longer a token is accepted, for clocks that differ (go-jose ``jwt.DefaultLeeway``)."""
HALF: Final = 32
"""Bytes of each number of an ES256 signature (RFC 7518, 3.4)."""


def short_lived(cluster: Cluster, namespace: str, account: str, seconds: float) -> str:
    """Give a token of an account that is accepted for so many seconds from now; negative: it has expired."""
    found = cluster.get(path("v1", "serviceaccounts", namespace=namespace, name=account))
    now = time.time()
    claims = {
        "iss": ISSUER,
        "aud": [ISSUER],
        "sub": f"system:serviceaccount:{namespace}:{account}",
        "iat": int(now) - 600,
        "nbf": int(now) - 600,
        "exp": int(now + seconds - LEEWAY_SECONDS),
        "kubernetes.io": {
            "namespace": namespace,
            "serviceaccount": {"name": account, "uid": found["metadata"]["uid"]},
        },
    }
    signed = f"{_part({'alg': 'ES256', 'typ': 'JWT'})}.{_part(claims)}"
    command = ["openssl", "dgst", "-sha256", "-sign", str(cluster.files.signing_key)]
    signature = subprocess.run(command, input=signed.encode(), capture_output=True, check=True).stdout
    return f"{signed}.{_encoded(_plain(signature))}"


def _part(content: dict[str, Any]) -> str:
    return _encoded(json.dumps(content).encode())


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _plain(der: bytes) -> bytes:
    """Give the two numbers of a signature in DER (SEQUENCE of two INTEGER) side by side, as a token has them."""
    numbers = b""
    at = 2
    for _number in range(2):
        length = der[at + 1]
        numbers += der[at + 2 : at + 2 + length].lstrip(b"\0").rjust(HALF, b"\0")
        at += 2 + length
    return numbers


NODES = 2
ASLEEP_SECONDS: Final = 95
"""The longest watch takes 75 s, and its client waits for 15 s more."""
SHORT_SECONDS: Final = 25
"""Enough to start on a busy machine; a run that needs longer reads the new token sooner."""
LONG_SECONDS: Final = 900
BINDINGS: Final = f"/apis/{RBAC}/clusterrolebindings"
DELETE_PODS: Final = Right("", "pods", "delete")


def _somebody(ground: Ground, name: str) -> Path:
    """Make an account with the rights of the chart, and give its kubeconfig."""
    return kubeconfig(ground.cluster, name, charted(ground.cluster))


def _take_deletions(ground: Ground, name: str) -> None:
    """Take one right alone: a watch that ends by itself meanwhile can be opened again."""
    allow(ground.cluster, name, charted(ground.cluster) - {DELETE_PODS})


def _take_rights(ground: Ground, name: str) -> dict[str, Any]:
    """Remove what binds an account to its role; gives it, so that it can be given back."""
    found = ground.cluster.get(f"{BINDINGS}/{name}")
    ground.cluster.delete(f"{BINDINGS}/{name}")
    return {**found, "metadata": {"name": name}}


def test_rights_that_come_back(ground: Ground, door: Doorway) -> None:
    """Gone for seconds, for watches first and then for deletions: asked again, and nothing is missed."""
    run = ground.waiting(kubeconfig=door.through(_somebody(ground, "forgiven")))
    ground.until(door.watches_all, "it watches everything", PATIENCE)
    binding = _take_rights(ground, "forgiven")
    door.cut()
    ground.until(lambda: door.refused("watch") > 0 or run.over, "watches are refused", PATIENCE)
    ground.cluster.create(BINDINGS, binding)
    ground.until(lambda: door.watches_all(2) or run.over, "watches are allowed again", PATIENCE)
    _take_deletions(ground, "forgiven")
    ground.upgrade()
    ground.until(lambda: door.refused("delete") > 0 or run.over, "a deletion is refused", PATIENCE)
    ground.assert_untouched()
    allow(ground.cluster, "forgiven", charted(ground.cluster))
    run.told().assert_phase("Done", "Refreshed")
    ground.assert_clean(ground.nodes)


def test_rights_that_do_not_come_back(ground: Ground, door: Doorway) -> None:
    """After some seconds exit 3, which names the permission: for a watch, and for a deletion."""
    blind = ground.waiting(kubeconfig=door.through(_somebody(ground, "blind")))
    bound = ground.waiting(kubeconfig=_somebody(ground, "bound"))
    ground.until(door.watches_all, "it watches everything", PATIENCE)
    _take_rights(ground, "blind")
    _take_deletions(ground, "bound")
    door.cut()
    ground.upgrade()
    ends = {"watch": blind.told(), "delete pods": bound.told()}
    for right, end in ends.items():
        end.assert_phase("Fail", "PermissionMissing")
        assert f"permission missing: {right}" in end.story["message"]
        assert end.story["next"].startswith("PermissionMissing")
    assert f"in namespace {PLUGIN_NAMESPACE}" in ends["delete pods"].story["message"]
    ground.assert_untouched()
    ground.begin().told().assert_phase("Done", "Refreshed")
    ground.assert_clean(ground.nodes)


@dataclass(frozen=True, slots=True)
class Mount:
    """A pod's ServiceAccount directory, with a token that expires and is replaced."""

    cluster: Cluster
    account: str
    folder: Path

    def renew(self, seconds: float) -> str:
        """Put a token in place that lives for so many seconds, and give it."""
        token = short_lived(self.cluster, HOME, self.account, seconds)
        self.folder.mkdir(exist_ok=True)
        (self.folder / "ca.crt").write_bytes(self.cluster.files.certificate.read_bytes())
        (self.folder / "namespace").write_text(HOME)
        (self.folder / ".token").write_text(token)
        (self.folder / ".token").replace(self.folder / "token")
        return token

    def run(self, ground: Ground, *args: str, waiting: bool = True) -> Run:
        """Start a run as in a pod."""
        server = urlsplit(Access.from_kubeconfig(self.cluster.kubeconfig).server)
        begin = ground.waiting if waiting else ground.begin
        variables = {"KUBERNETES_SERVICE_HOST": str(server.hostname), "KUBERNETES_SERVICE_PORT": str(server.port)}
        return begin(f"--service-account-dir={self.folder}", *args, timeout="240s", environment=variables)


def _is_dead(cluster: Cluster, token: str) -> bool:
    """Whether the API server does not accept a token."""
    access = Access.from_kubeconfig(cluster.kubeconfig)

    async def ask(_: Api) -> int:
        async with Api(Access(access.server, access.tls, token=token)) as api:
            try:
                await api.get("/api")
            except ApiError as error:
                return error.code
        return 0

    return cluster.run(ask) == 401


@pytest.mark.slow
def test_dead_tokens_and_a_long_sleep(ground: Ground) -> None:
    """Four runs side by side, because each takes its time.

    One has a token that expires, and later a new one in its file: it reads it within a minute, and does the work. One
    has an expired token and no other: exit 1, for which the Job gives another pod, and so another token. Two are
    stopped for longer than any watch lasts: the one with time left looks again, and refreshes what became stale
    meanwhile and nothing else; the other is out of time, and touches nothing.
    """
    _somebody(ground, "mortal")
    mount, lost = (Mount(ground.cluster, "mortal", ground.cluster.state / name) for name in ("mount", "lost"))
    lost.renew(-5)
    hopeless = lost.run(ground, waiting=False)
    token = mount.renew(SHORT_SECONDS)
    renewed = mount.run(ground)
    sleepers = asleep, late = ground.waiting(timeout="300s"), ground.waiting(timeout="60s")
    for each in sleepers:
        os.kill(each.process.pid, signal.SIGSTOP)
    slept = time.monotonic()
    ground.until(lambda: _is_dead(ground.cluster, token), "the first token has expired", PATIENCE)
    mount.renew(LONG_SECONDS)
    ground.upgrade()
    renewed.told().assert_phase("Done", "Refreshed")
    ground.assert_clean(ground.nodes)

    ground.spoil("gpu-1")
    time.sleep(max(0.0, slept + ASLEEP_SECONDS - time.monotonic()))
    for each in sleepers:
        os.kill(each.process.pid, signal.SIGCONT)
    late.told().assert_phase("Deadline", "TimeUp")
    asleep.told().assert_phase("Done", "Refreshed")
    ground.assert_clean(["gpu-1"])
    hopeless.told().assert_phase("Fail", "Unauthorized", 1)
