"""DaemonSets: which pods and nodes they select, and which templates their revisions record."""

from __future__ import annotations

import pytest

from hook.objects.daemonsets import read_daemonset, read_revision
from hook.objects.nodes import node_reader
from hook.objects.scheduling import Taint
from tests.fixtures.objects import Object, obj

IMAGE = "nvcr.io/nvidia/driver:580.126.20-ubuntu22.04"


@pytest.mark.parametrize(
    ("labels", "selected"),
    [({"app": "nvidia-driver-daemonset", "more": "x"}, True), ({"app": "other"}, False), ({}, False)],
)
def test_a_daemonset_selects_its_pods(labels: dict[str, str], selected: bool) -> None:
    """All labels of its selector must be there. Without a selector it selects no pod."""
    assert selected is read_daemonset(obj("driver-daemonset")).selects(labels)
    assert not read_daemonset(obj("driver-daemonset", "spec: {selector: null}")).selects(labels)


TERM = {
    "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}, {"operator": "Exists"}],
    "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-0"]}],
}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def test_a_daemonset_names_the_labels_by_which_it_selects_nodes() -> None:
    """By its node selector and by its required affinity. The cache reads these labels of all nodes."""
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [TERM]}}}
    spec = {"nodeSelector": {"pool": "x"}, "affinity": affinity}
    found = read_daemonset(obj("plugin-daemonset", {"spec": {"template": {"spec": spec}}}))
    assert ["pool", "zone"] == list(found.selected_by)


WANTED: dict[str, tuple[Object, bool]] = {
    "every-node": ({}, True),
    "label": ({"nodeSelector": {"zone": "a"}}, True),
    "another-label": ({"nodeSelector": {"zone": "b"}}, False),
    "term": (
        {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}, {"matchFields": TERM["matchFields"]}]}}}},
        True,
    ),
    "no-term": ({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}}}}, False),
    "tainted": ({"tolerations": []}, False),
}


@pytest.mark.parametrize(("spec", "wanted"), WANTED.values(), ids=WANTED)
def test_a_daemonset_wants_a_pod_on_a_node(spec: Object, wanted: bool) -> None:
    """Its selector, its affinity and its tolerations must let it."""
    node = node_reader(("zone",))(
        obj("node", "{metadata: {labels: {zone: a}}, spec: {taints: [{key: gpu, value: 'true', effect: NoSchedule}]}}")
    )
    whole = {"nodeSelector": None, "tolerations": [{"operator": "Exists"}], **spec}
    found = read_daemonset(obj("driver-daemonset", {"spec": {"template": {"spec": whole}}}))
    assert wanted is found.wants(node)
    assert (None if whole["tolerations"] else Taint("gpu", "true", "NoSchedule")) == found.untolerated(node)


RECORDED: Object = {
    "metadata": {"labels": obj("driver-daemonset")["spec"]["template"]["metadata"]["labels"]},
    "spec": {"containers": [{"name": "nvidia-driver-ctr", "image": IMAGE}]},
}


@pytest.mark.parametrize(
    ("data", "template", "records"),
    [
        pytest.param({"spec": {"template": RECORDED}}, ..., True, id="the-same-template"),
        pytest.param({"spec": {"template": {}}}, ({}, {}), False, id="another-template"),
        pytest.param({"spec": {}}, None, True, id="no-template"),
        pytest.param(None, None, True, id="null"),
    ],
)
def test_a_revision_records_a_template(data: Object | None, template: object, records: bool) -> None:
    """By its labels and images. One without data, which Go writes as null, may record any."""
    revision = obj("revision")
    revision["data"] = data
    found = read_revision(revision)
    if template is not ...:
        assert template == found.template
    assert records is found.records(read_daemonset(obj("driver-daemonset")))
