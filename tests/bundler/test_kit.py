"""The files of examples/aicr agree with each other and with the chart, and a recipe with the component is bundled."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from tests.bundler.kit import KIT, NAME, asserted, component_ref, entry, scheduling
from tests.bundler.program import COPIED, DRA, IMAGE, OPERATOR, POST, TOOLS, bundle, recipe, write
from tests.bundler.reading import load, read, render
from tests.chart.rendering import CHART, Helm, pod_of

RELEASES: Final = (NAME, f"gpu-operator-{NAME}", f"aicr-stack-{NAME}")
"""As deploy.sh and helmfile, Flux, and Argo CD with a prefix name the release."""
WORKLOADS: Final = {"values.yaml": "Job", "values-controller.yaml": "Deployment"}
FAKE: Final = {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}
SCRIPT: Final = """
for name in dra-plugin-refresh; do
  COMPONENT_MAX_RETRIES=5 COMPONENT_WAIT_ARGS=usual
  case "${name}" in
    *-readiness)
      ;;
  esac
  echo "${COMPONENT_MAX_RETRIES} ${COMPONENT_WAIT_ARGS}"
  # --- post-install name-matched blocks ---
  echo restart
done
"""
"""The parts of AICR's deploy.sh that the patches find, in their order and with their indentation."""


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


def test_values(helm: Helm) -> None:
    """Whatever the release is called, the checked object exists, flags of AICR reach the pod, and nothing is a hook."""
    (checked,) = [each["metadata"] for each in asserted()]
    given = scheduling({"type": "system"}, [FAKE])
    for file, kind in WORKLOADS.items():
        values = KIT / "components" / NAME / file
        assert all("key" in each for each in load(values)["tolerations"])
        for release in RELEASES:
            rendered = helm.render(given, f"--values={values}", release=release)
            status = rendered.one("ConfigMap")["metadata"]
            assert {key: status[key] for key in checked} == checked, file
            pod = pod_of(rendered.one(kind))
            assert (pod["nodeSelector"]["type"], pod["tolerations"]) == ("system", [FAKE]), file
            hooks = [each for each in rendered.objects if "helm.sh/hook" in each["metadata"].get("annotations", {})]
            assert hooks == [], file


def test_bundle(tmp_path: Path, helm: Helm) -> None:
    """Each tool installs the component under its own name, as a plain Job that it waits for."""
    document = recipe()
    document["componentRefs"].append(component_ref())
    file = write(tmp_path / "recipe.yaml", document)
    flags = (*COPIED, f"--data={KIT}", f"--values={POST}={write(tmp_path / 'image.yaml', IMAGE)}")
    for tool in TOOLS:
        folder = bundle(tool, tmp_path / tool, *flags, recipe=file)
        found = read(tool, folder, helm)
        assert list(found) == [OPERATOR, NAME, DRA], tool
        ours = found[NAME]
        rendered = render(ours, folder, helm)
        assert rendered.job["metadata"]["name"].startswith(f"{NAME}-"), tool
        assert ours.waits, tool


def _patched(text: str, *files: str) -> str:
    for file in files:
        sed = ["sed", "-E", "-f", str(KIT / "patches" / file)]
        text = subprocess.run(sed, input=text, capture_output=True, text=True, check=True).stdout
    return text


def test_patches() -> None:
    """On excerpts: the component gets its own time and one attempt unless nothing is waited for, and no restart."""
    script = _patched(SCRIPT, "deploy-sh-timeout.sed", "deploy-sh-block.sed")
    for no_wait, expected in (("false", "--wait --wait-for-jobs --timeout 27m"), ("true", "usual")):
        command = ["bash", "-c", f"NO_WAIT={no_wait}\n{script}"]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == f"0 {expected}\n"
    state = _patched(f"releases:\n  - name: {NAME}\n    chart: a/b\n", "helmfile-timeout.sed")
    assert "    timeout: 1620\n    waitForJobs: true\n    chart: a/b" in state
