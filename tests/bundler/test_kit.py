"""The files of examples/aicr agree with each other and with the chart, and a recipe with the component is bundled."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.bundler.kit import KIT, NAME, asserted, component_ref, entry, scheduling
from tests.bundler.program import COPIED, DRA, IMAGE, OPERATOR, POST, TOOLS, bundle, recipe, write
from tests.bundler.reading import load, read, render
from tests.chart.rendering import CHART, Helm, pod_of

RELEASES: Final = (NAME, f"gpu-operator-{NAME}", f"aicr-stack-{NAME}")
"""As deploy.sh and helmfile, Flux, and Argo CD with a prefix name the release."""
WORKLOADS: Final = {"values.yaml": "Job", "values-controller.yaml": "Deployment"}
FAKE: Final = {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}
SCRIPT: Final = """
for name in dra-plugin-refresh nvidia-dra-driver-gpu; do
  COMPONENT_MAX_RETRIES=5 COMPONENT_WAIT_ARGS=usual
  case "${name}" in
    kai-scheduler)
      ;;
  esac
  echo "${COMPONENT_MAX_RETRIES} ${COMPONENT_WAIT_ARGS}"

  # --- post-install name-matched blocks ---
  if [[ "${name}" == "nvidia-dra-driver-gpu" ]]; then
    echo restart
  fi
done
"""
"""The lines of AICR's deploy.sh that the patches find, in their order and with their indentation."""
HELMFILE: Final = f"""
releases:
  - name: gpu-operator
    namespace: gpu-operator
  - name: {NAME}
    namespace: gpu-operator
    chart: a/b
"""


def test_names_agree() -> None:
    """All files mean one component, the files that they name exist, and the version is that of the chart."""
    ours, driver = load(KIT / "overlays" / f"{NAME}.yaml")["spec"]["componentRefs"]
    upgrades, patched = load(KIT / entry()["upgrades"]["file"]), load(KIT / "patches" / "flux" / "kustomization.yaml")
    called = [entry()["name"], ours["name"], upgrades["component"], patched["patches"][0]["target"]["name"]]
    assert {*called, driver["dependencyRefs"][-1]} == {NAME}
    assert (KIT / ours["valuesFile"]).is_file()
    chart, helm = load(CHART / "Chart.yaml"), entry()["helm"]
    assert (helm["defaultChart"], helm["defaultVersion"]) == (chart["name"], chart["version"])
    # AICR refuses a record whose ranges do not reach the pin.
    assert upgrades["transitions"][-1]["to"].rpartition("=")[2] == chart["version"]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(("file", "kind"), WORKLOADS.items())
def test_values(helm: Helm, file: str, kind: str, release: str) -> None:
    """Whatever the release is called, the checked object exists, flags of AICR reach the pod, and nothing is a hook."""
    (checked,) = [each["metadata"] for each in asserted()]
    values = KIT / "components" / NAME / file
    assert all("key" in each for each in load(values)["tolerations"])
    rendered = helm.render(scheduling({"type": "system"}, [FAKE]), f"--values={values}", release=release)
    status = rendered.one("ConfigMap")["metadata"]
    assert {key: status[key] for key in checked} == checked
    pod = pod_of(rendered.one(kind))
    assert (pod["nodeSelector"]["type"], pod["tolerations"]) == ("system", [FAKE])
    assert [each for each in rendered.objects if "helm.sh/hook" in each["metadata"].get("annotations", {})] == []


@pytest.mark.parametrize("tool", TOOLS)
def test_bundle(tmp_path: Path, helm: Helm, tool: str) -> None:
    """Each tool installs the component under its own name, as a plain Job that it waits for."""
    document = recipe()
    document["componentRefs"].append(component_ref())
    file = write(tmp_path / "recipe.yaml", document)
    flags = (*COPIED, f"--data={KIT}", f"--values={POST}={write(tmp_path / 'image.yaml', IMAGE)}")
    folder = bundle(tool, tmp_path / tool, *flags, recipe=file)
    found = read(tool, folder, helm)
    assert list(found) == [OPERATOR, NAME, DRA]
    assert render(found[NAME], folder, helm).job["metadata"]["name"].startswith(f"{NAME}-")
    assert found[NAME].waits


def _patched(folder: Path, text: str, *names: str) -> str:
    """Return a file after patches that fit exactly, whatever is above it."""
    file = folder / "patched"
    file.write_text(text)
    # Outside of a repository, because git ignores files that are above the current folder of one.
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    for name in names:
        hunks = (KIT / "patches" / name).read_text().partition("@@")[2]
        change = f"--- a/patched\n+++ b/patched\n@@{hunks}"
        subprocess.run(["git", "apply", "-"], cwd=folder, env=environment, input=change, text=True, check=True)
    return file.read_text()


@pytest.mark.parametrize(
    ("no_wait", "expected"), [("false", "--wait --wait-for-jobs --timeout 27m"), ("true", "usual")]
)
def test_the_patched_script(tmp_path: Path, no_wait: str, expected: str) -> None:
    """On an excerpt: the component gets its own time and one attempt unless nothing is waited for."""
    script = _patched(tmp_path, SCRIPT, "deploy-sh-timeout.diff", "deploy-sh-block.diff")
    command = ["bash", "-c", f"NO_WAIT={no_wait}\n{script}"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed == f"0 {expected}\n5 usual\n"


def test_the_patched_helmfile(tmp_path: Path) -> None:
    """On an excerpt: the component alone gets its own time."""
    operator, ours = yaml.safe_load(_patched(tmp_path, HELMFILE, "helmfile-timeout.diff"))["releases"]
    assert (ours["timeout"], ours["waitForJobs"]) == (1620, True)
    assert "timeout" not in operator
