"""Recipes that cannot be followed are refused with the place in them, and nothing is written."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.bundler.program import DRA, OPERATOR, Document, bundle, changed, component, recipe, refuse, run, write

REPLACED = "AICR installs the manifestFiles of gpu-operator as a release called gpu-operator-post"


def _refused(tmp_path: Path, document: object, *more: str) -> str:
    """Return what both commands print of a recipe that both must refuse."""
    file = write(tmp_path / "r.yaml", document)
    derived = run("trigger", "derive", "--recipe", file)
    target = tmp_path / "bundle"
    bundled = run("bundle", "--recipe", file, "--deployer=flux", "--output", target, *more)
    assert (2, 2) == (derived.code, bundled.code)
    assert derived.err == bundled.err
    assert not target.exists()
    assert [file] == list(tmp_path.iterdir())
    return derived.err


HEADERS: Final[tuple[tuple[Document, str], ...]] = (
    ({"kind": None}, "r.yaml: the document: Object missing required field `kind`"),
    ({"kind": "Deployment"}, "r.yaml: kind: Invalid enum value 'Deployment'"),
    ({"kind": "RecipeMetadata"}, "a RecipeMetadata is not resolved"),
    ({"apiVersion": "apps/v1"}, "r.yaml: apiVersion"),
    ({"componentRefs": None}, "missing required field `componentRefs`"),
    ({"componentRefs": [{"name": 1}]}, "r.yaml: componentRefs[0].name: Expected `str`"),
)
COMPONENTS: Final[tuple[tuple[Document, str], ...]] = (
    ({"version": None}, "componentRefs[0].version: it is missing or empty (gpu-operator)"),
    ({"version": 26.7}, "componentRefs[0].version: Expected `str`, got `float`: quote it"),
    ({"version": "latest"}, "componentRefs[0].version: Expected `str` matching regex"),
    ({"namespace": "GPU_operator"}, "componentRefs[0].namespace"),
    ({"chart": "../x"}, "componentRefs[0].chart"),
    ({"source": "https://a.b/$(id)"}, "componentRefs[0].source"),
    ({"type": "Kustomize"}, "componentRefs[0].type: Expected `str` matching regex"),
    ({"version": "v1\n"}, "componentRefs[0].version: Expected"),
    ({"overrides": {"enabled": "false"}}, "componentRefs[0].overrides.enabled: Expected `bool`"),
)
VALUES: Final[tuple[tuple[Document, str], ...]] = (
    ({"driver": {"version": 580.1}}, "driver.version: Expected `str`, got `float`: quote it"),
    ({"driver": {"version": "1", "nvidiaDriverCRD": 1}}, "driver: nvidiaDriverCRD: Expected `object`"),
)


def _without_none(document: Document) -> Document:
    return {key: value for key, value in document.items() if value is not None}


@pytest.mark.parametrize(("fields", "complaint"), HEADERS)
def test_what_is_no_resolved_recipe_is_refused(tmp_path: Path, fields: Document, complaint: str) -> None:
    """With its place."""
    assert complaint in _refused(tmp_path, _without_none({**recipe(), **fields}))


@pytest.mark.parametrize(("fields", "complaint"), COMPONENTS)
def test_a_component_of_another_shape_is_refused(tmp_path: Path, fields: Document, complaint: str) -> None:
    """With its place."""
    document = recipe()
    document["componentRefs"][0] = _without_none(component(document, OPERATOR) | fields)
    assert complaint in _refused(tmp_path, document)


def test_unused_fields_may_be_wrong(tmp_path: Path) -> None:
    """What the program does not read says nothing about the rest."""
    unused = changed(tmp_path / "r.yaml", OPERATOR, type="HELM", path=7, enabled="yes")
    assert run("trigger", "derive", "--recipe", unused).code == 0


def test_a_component_that_comes_twice_is_refused(tmp_path: Path) -> None:
    """It is not known which of both counts."""
    document = recipe()
    document["componentRefs"].append(component(document, DRA))
    assert "componentRefs[2].name: duplicate component nvidia-dra-driver-gpu" in _refused(tmp_path, document)


@pytest.mark.parametrize("field", ["namespace", "source"])
def test_a_bundle_needs_fields_that_the_trigger_does_not(tmp_path: Path, field: str) -> None:
    """They say where a release is installed, and from where."""
    file = changed(tmp_path / "r.yaml", DRA, **{field: None})
    assert run("trigger", "derive", "--recipe", file).code == 0
    complaint = f"componentRefs[1].{field}: it is missing or empty (nvidia-dra-driver-gpu)"
    refuse("helm", tmp_path / "bundle", complaint, recipe=file)


def test_a_bundle_needs_one_of_both_components(tmp_path: Path) -> None:
    """Without both there is nothing to install."""
    file = write(tmp_path / "r.yaml", {**recipe(), "componentRefs": []})
    refuse("helm", tmp_path / "bundle", "neither gpu-operator nor nvidia-dra-driver-gpu is enabled", recipe=file)


@pytest.mark.parametrize(("overrides", "complaint"), VALUES)
def test_values_of_another_shape_are_refused(tmp_path: Path, overrides: Document, complaint: str) -> None:
    """Those that the program derives from."""
    file = changed(tmp_path / "r.yaml", OPERATOR, overrides=overrides)
    refuse("helm", tmp_path / "bundle", f"values of gpu-operator: {complaint}", recipe=file)


def test_other_components_are_not_judged(tmp_path: Path) -> None:
    """What a later AICR adds to a recipe, or writes of other components, is ignored."""
    document = {**recipe(), "apiVersion": "aicr.run/v2", "kind": "RecipeResult", "something": {"new": True}}
    document["componentRefs"].append({"name": "other", "type": "Kustomize", "version": 7, "overrides": "none"})
    bundle("helm", tmp_path / "bundle", recipe=write(tmp_path / "r.yaml", document))


def test_the_plugins_of_the_network_operator_need_a_release_of_their_own(tmp_path: Path) -> None:
    """A note names it, with its value. The derived versions are those of the GPU operator."""
    document = recipe()
    document["componentRefs"].append({"name": "network-operator"})
    file = write(tmp_path / "r.yaml", document)
    target = tmp_path / "bundle"
    done = run("bundle", "--recipe", file, "--deployer=helm", "--output", target)
    said = "note: the recipe has network-operator: to refresh its device plugins, install the chart gpu-operator-post a"
    assert (0, True) == (done.code, said in done.out)
    assert "stack: network" in (target / "README.md").read_text()
    other = run(
        "bundle", "--recipe", write(tmp_path / "o.yaml", recipe()), "--deployer=helm", "--output", tmp_path / "o"
    )
    assert "network-operator" not in other.out


def test_what_a_bundle_has_no_room_for(tmp_path: Path) -> None:
    """Files that AICR installs next to a chart are named with their place, on the page of the bundle too."""
    parts = {"manifestFiles": ["m/nvidia-driver.yaml"], "preManifestFiles": ["m/a.yaml"], "patches": [{"path": "p"}]}
    file = changed(tmp_path / "r.yaml", OPERATOR, **parts)
    target = tmp_path / "bundle"
    done = run("bundle", "--recipe", file, "--deployer=flux", "--output", target)
    page = (target / "README.md").read_text()
    for said in [*(f"componentRefs[0].{key} of gpu-operator is not in the bundle" for key in parts), REPLACED]:
        assert f"note: {said}" in done.out
        assert f"- {said}" in page
    empty = changed(tmp_path / "empty.yaml", OPERATOR, manifestFiles=[], patches=None)
    assert "note" not in run("bundle", "--recipe", empty, "--deployer=flux", "--output", tmp_path / "other").out


def test_file_that_is_not_there(tmp_path: Path) -> None:
    """A missing or unreadable file is named."""
    for missing in (tmp_path / "none.yaml", tmp_path):
        done = run("trigger", "derive", "--recipe", missing)
        assert (2, "") == (done.code, done.out)
        assert "cannot read the file" in done.err
