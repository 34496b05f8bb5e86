"""The image of the scripts: it runs a script of ``sh`` with kubectl, as in a pod.

A pod has its ServiceAccount in a place that kubectl finds by itself; here it is elsewhere, so kubectl gets a
kubeconfig.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

ACCOUNT = "DEVCLUSTER_SERVICE_ACCOUNT_DIR"


def main() -> None:
    """Become the script."""
    home, account = Path(os.environ["HOME"]), Path(os.environ[ACCOUNT])
    home.mkdir(parents=True, exist_ok=True)
    file = home / "kubeconfig"
    server = f"https://{os.environ['KUBERNETES_SERVICE_HOST']}:{os.environ['KUBERNETES_SERVICE_PORT']}"
    file.write_text(json.dumps(kubeconfig(server, account)), encoding="utf-8")
    os.execvpe("sh", ["sh", "-euc", sys.argv[1]], {**os.environ, "KUBECONFIG": str(file)})  # noqa: S606 - it is a shell


def kubeconfig(server: str, account: Path) -> dict[str, object]:
    """Return a kubeconfig with the credentials of a mounted ServiceAccount."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority": str(account / "ca.crt")}}],
        "users": [{"name": "u", "user": {"tokenFile": str(account / "token")}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }


if __name__ == "__main__":
    main()
