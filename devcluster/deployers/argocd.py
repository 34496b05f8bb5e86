"""Argo CD's application-controller and repo-server.

The controller's metrics port listens on all addresses; Argo CD has no setting for that. Everything else is on
loopback.
"""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from devcluster.boot.controlplane import ONE_PROCESSOR, SPARE_GARBAGE
from devcluster.boot.ports import free_ports
from devcluster.client import path
from devcluster.deployers.outcome import Object, Outcome, apply, install_crds, settled
from devcluster.deployers.sources import GitRepository

if TYPE_CHECKING:
    from collections.abc import Callable

    from devcluster.boot.cluster import Cluster

NAMESPACE = "argocd"
APPLICATIONS = path("argoproj.io/v1alpha1", "applications", namespace=NAMESPACE)
KINDS = ("applications", "appprojects", "applicationsets")

RESYNC_SECONDS = 60
"""How often Argo CD looks at the repository by itself. Tests ask for it."""

SELF_HEAL_SECONDS = 5
"""How long it waits at most before it repairs the same again."""

FOLDERS = ("home", "gpg-keys", "gpg-source", "tls", "ssh", "plugins", "tmp")
"""What is mounted into Argo CD's containers."""

ENDED = {"Succeeded", "Failed", "Error"}


class ArgoCd:
    """Argo CD on one cluster, with one git repository."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.folder = cluster.state / "argocd"
        self.repository = GitRepository(self.folder / "repository")
        self._program = cluster.binary("argocd")
        self._password = secrets.token_hex(16)
        self._start()

    def _start(self) -> None:
        """Install the CRDs and the objects that Argo CD's own chart makes, and start the three processes."""
        install_crds(self.cluster, [self._program.parent], [path("argoproj.io/v1alpha1", kind) for kind in KINDS])
        apply(self.cluster, [_namespace(), *_configuration(), _project()])
        redis, repo, repo_metrics, metrics = free_ports(4)
        self._launch("argocd-redis", "redis", f"--address=127.0.0.1:{redis}")
        log = ("--loglevel=info", "--logformat=text", f"--redis=127.0.0.1:{redis}")
        self._launch(
            "argocd-repo-server", "repo-server", *log, "--address=127.0.0.1", f"--port={repo}",
            "--metrics-address=127.0.0.1", f"--metrics-port={repo_metrics}",
        )  # fmt: skip
        self._launch(
            "argocd-application-controller", "application-controller", *log, f"--kubeconfig={self._kubeconfig()}",
            f"--namespace={NAMESPACE}", f"--repo-server=127.0.0.1:{repo}", f"--metrics-port={metrics}",
            f"--app-resync={RESYNC_SECONDS}", "--self-heal-timeout-seconds=2",
        )  # fmt: skip

    def _launch(self, name: str, role: str, *flags: str) -> None:
        self.cluster.launch(name, [str(self._program), role, *flags], self._environment())

    def _environment(self) -> dict[str, str]:
        """Keep files below the state directory; Argo CD 3.6 calls Helm 4, and a script of its own about signatures."""
        tools = self.folder / "bin"
        folders = {name: self.folder / name for name in FOLDERS}
        for each in (tools, *folders.values()):
            each.mkdir(parents=True, exist_ok=True)
        (folders["ssh"] / "ssh_known_hosts").touch()
        helm = tools / "helm"
        if not helm.is_symlink():
            helm.symlink_to(self.cluster.binary("helm4"))
            verify = Path(shutil.copy(self._program.parent / "git-verify-wrapper.sh", tools))
            verify.chmod(0o755)
        return {
            "PATH": f"{tools}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "HOME": str(folders["home"]),
            "TMPDIR": str(folders["tmp"]),
            "KUBECONFIG": str(self._kubeconfig()),
            "HOSTNAME": "argocd-application-controller-0",
            "REDIS_PASSWORD": self._password,
            "ARGOCD_FAKE_IN_CLUSTER": "true",  # take the kubeconfig's cluster for the one that we run in
            "ARGOCD_GPG_ENABLED": "false",
            "ARGOCD_GNUPGHOME": str(folders["gpg-keys"]),
            "ARGOCD_GPG_DATA_PATH": str(folders["gpg-source"]),
            "ARGOCD_TLS_DATA_PATH": str(folders["tls"]),
            "ARGOCD_SSH_DATA_PATH": str(folders["ssh"]),
            "ARGOCD_PLUGINSOCKFILEPATH": str(folders["plugins"]),
            "ARGOCD_RECONCILIATION_TIMEOUT": f"{RESYNC_SECONDS}s",
            "ARGOCD_RECONCILIATION_JITTER": "0s",
            "ARGOCD_APPLICATION_CONTROLLER_SELF_HEAL_BACKOFF_CAP_SECONDS": str(SELF_HEAL_SECONDS),
            "NO_PROXY": "127.0.0.1,localhost",
            **SPARE_GARBAGE,
            **ONE_PROCESSOR,
        }

    def _kubeconfig(self) -> Path:
        """Write the administrator's kubeconfig with Argo CD's namespace, which it takes for its own."""
        file = self.folder / "kubeconfig"
        if not file.exists():
            config = yaml.safe_load(self.cluster.kubeconfig.read_text())
            for each in config["contexts"]:
                each["context"]["namespace"] = NAMESPACE
            file.touch(mode=0o600)
            file.write_text(yaml.safe_dump(config))
        return file

    def refresh(self, *names: str) -> None:
        """Do what the button does: look at the repository now."""
        for name in names:
            self.cluster.patch(
                f"{APPLICATIONS}/{name}", {"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}}
            )

    def sync(self, name: str) -> None:
        """Do what `argocd app sync` does: ask for a full sync."""
        operation = {"initiatedBy": {"username": "platform"}, "sync": {}}
        self.cluster.patch(f"{APPLICATIONS}/{name}", {"operation": operation})

    def application(self, name: str) -> Object:
        """Read an Application."""
        return self.cluster.get(f"{APPLICATIONS}/{name}")

    def began(self, name: str) -> str:
        """When the last operation began; empty before the first."""
        return _began(self.application(name))

    def settled(self, name: str, revision: str) -> Outcome:
        """Wait until a revision is synced, as far as it differs, and say how that ended."""
        return self._await(name, lambda application: _through(application, revision))

    def synced_again(self, name: str, since: str) -> Outcome:
        """Wait for the end of an operation that began after another one did, and say how it ended."""
        return self._await(name, lambda application: _began(application) > since and _idle(application))

    def _await(self, name: str, done: Callable[[Object], bool]) -> Outcome:
        def verdict(application: Object) -> bool | None:
            return bool(_state(application)["phase"] == "Succeeded") if done(application) else None

        return settled(self.cluster, f"{APPLICATIONS}/{name}", verdict, _shown)


def _state(application: Object) -> Object:
    """Return the state of the last operation; empty before the first."""
    found: Object = application.get("status", {}).get("operationState", {})
    return found


def _began(application: Object) -> str:
    """When the last operation began."""
    return str(_state(application).get("startedAt", ""))


def _idle(application: Object) -> bool:
    """Whether the last operation, with its retries, has ended and no other is asked for."""
    return "operation" not in application and _state(application).get("phase") in ENDED


def _through(application: Object, revision: str) -> bool:
    """Whether nothing more will happen by itself for a revision; a chart's is its version."""
    if "chart" in application["spec"]["source"]:
        revision = application["spec"]["source"]["targetRevision"]
    sync = application.get("status", {}).get("sync", {})
    attempted = _state(application).get("syncResult", {}).get("revision") == revision
    compared = sync.get("revision") == revision and sync.get("status") == "Synced"
    current = sync.get("comparedTo", {}).get("source") == application["spec"]["source"]
    return _idle(application) and current and (attempted or compared)


def _shown(application: Object) -> str:
    """Return what the Application's page shows: badges, the operation's message and the result of each resource."""
    status = application.get("status", {})
    state = _state(application)
    lines = [
        f"sync={status.get('sync', {}).get('status')} health={status.get('health', {}).get('status')}",
        f"operation={state.get('phase')}: {state.get('message')}",
    ]
    lines += [
        f"{each['kind']} {each['name']} {each.get('hookType', '')} {each.get('hookPhase', '')}: {each.get('message')}"
        for each in state.get("syncResult", {}).get("resources") or []
    ]
    lines += [f"condition {each['type']}: {each['message']}" for each in status.get("conditions") or []]
    return "\n".join(lines)


def _namespace() -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}


def _configuration() -> list[Object]:
    """Return the objects that Argo CD reads its settings from."""
    labels = {"app.kubernetes.io/part-of": "argocd"}

    def named(kind: str, name: str, **more: object) -> Object:
        metadata = {"name": name, "namespace": NAMESPACE, "labels": labels}
        return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **more}

    return [
        named("ConfigMap", "argocd-cm", data={"timeout.reconciliation": f"{RESYNC_SECONDS}s"}),
        named("ConfigMap", "argocd-rbac-cm"),
        named("Secret", "argocd-secret", stringData={"server.secretkey": secrets.token_hex(16)}),
    ]


def _project() -> Object:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": "default", "namespace": NAMESPACE},
        "spec": {
            "sourceRepos": ["*"],
            "destinations": [{"server": "*", "namespace": "*"}],
            "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
        },
    }
