"""A git repository on this machine, that Argo CD reads through a ``file://`` address."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

IDENTITY = {
    "GIT_AUTHOR_NAME": "platform team",
    "GIT_AUTHOR_EMAIL": "platform@example.invalid",
    "GIT_COMMITTER_NAME": "platform team",
    "GIT_COMMITTER_EMAIL": "platform@example.invalid",
}


class GitRepository:
    """One branch, `main`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self._git("init", "--quiet", "--initial-branch=main")

    @property
    def url(self) -> str:
        """Where Argo CD finds it."""
        return f"file://{self.folder}"

    def commit(self, message: str) -> str:
        """Commit everything, changed or not, and return the revision."""
        self._git("add", "--all")
        self._git("commit", "--quiet", "--allow-empty", f"--message={message}")
        return self._git("rev-parse", "HEAD")

    def _git(self, *arguments: str) -> str:
        """Run git with nothing of the user's own configuration."""
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.folder),
            "GIT_CONFIG_NOSYSTEM": "1",
            **IDENTITY,
        }
        answer = subprocess.run(
            ["git", *arguments], cwd=self.folder, env=environment, capture_output=True, text=True, check=True
        )
        return answer.stdout.strip()
