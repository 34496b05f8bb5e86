"""Certify a cluster: what the chart needs is there, its permissions hold, its image runs, nothing is left behind.

Nothing is restarted, and nothing outside of a namespace of its own is written but the chart's own
cluster-scoped objects, unless ``--test_extra_info restart=yes`` asks for the last test.
"""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from devcluster import patience
from hook.objects.names import PLUGIN_DAEMONSETS
from tests.certify.site import CHART, Done, Site
from tests.e2e.identity import Right, rights
from tests.e2e.lab import Lab
from tests.process.program import run

OLDEST: Final = (1, 34)
"""What Chart.yaml admits."""
VARIANTS: Final = sorted((CHART / "ci").glob("*-values.yaml"))
CONTROLLERS: Final = [one for one in VARIANTS if yaml.safe_load(one.read_text()).get("controller", {}).get("enabled")]
"""Those with a controller, which has no dry run."""
NO_CONTROLLER: Final = "--set=controller.enabled=false,job.enabled=true"
"""Whatever the user's values say: what follows is about the Job."""
AT_ONCE: Final = 4
KEEP_THE_JOB: Final = "--set=hook.deletePolicy=before-hook-creation"
"""A hook that succeeded would be deleted before it can be looked at."""
NO_CLIENTS: Final = "--set-json=driverClients=[]"
LEASE: Final = "%s-gpu-operator-post"
"""As releases are named that do not carry the chart's name."""
INSTALL_TIMEOUT: Final = "--timeout=10m"
"""For pulling the image; a dry run itself takes seconds."""
REAL_TIMEOUT: Final = "--timeout=24h"
"""The Job's own deadline, the chart's timeout, comes first."""
PATIENCE: Final = 120
"""Seconds for a policy to come into effect; one or two are usual."""
OUT_OF_REACH: Final = {
    *(Right("", resource, "create") for resource in ("pods", "pods/exec")),
    *(Right("", "secrets", verb) for verb in ("get", "list")),
    Right("", "nodes", "patch"),
    Right("rbac.authorization.k8s.io", "clusterroles", "escalate"),
    *(Right("apps", "daemonsets", verb) for verb in ("patch", "delete")),
    *(Right("coordination.k8s.io", "leases", verb) for verb in ("create", "patch")),
}
"""What would make more of this account than it should be (strategy delete-stale-pods)."""
RESTRICTED: Final = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
HARMLESS: Final[dict[str, Any]] = {
    "nodeSelector": {"gpu-operator-post/certify": "never"},
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10", "securityContext": RESTRICTED}],
}
"""A pod that never runs: no node has such a label."""


def _plugins(site: Site) -> dict[str, str]:
    """Return the UIDs of the plugins' pods, by namespace and name."""
    return {
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": str(pod["metadata"]["uid"])
        for pod in site.items("pods", "--all-namespaces")
        if any(owner["name"] in PLUGIN_DAEMONSETS for owner in pod["metadata"].get("ownerReferences", ()))
    }


def test_the_cluster_has_what_the_chart_needs(site: Site) -> None:
    """Kubernetes with dynamic resource allocation, and with admission policies."""
    version = site.read("version")["serverVersion"]
    found = (int(version["major"]), int(re.sub(r"\D.*", "", version["minor"])))
    assert found >= OLDEST, f"Kubernetes {found[0]}.{found[1]} does not serve resource.k8s.io/v1; 1.34 does"
    served = site.kubectl("api-resources", "--output=name").stdout.split()
    assert "resourceslices.resource.k8s.io" in served, "DRA is not enabled: the API server serves no ResourceSlices"
    assert "validatingadmissionpolicies.admissionregistration.k8s.io" in served, (
        "the chart confines itself by admission policies"
    )


def test_the_account_may_do_what_it_needs_and_no_more(site: Site, embedded: Lab | None) -> None:
    """Each right as the API server answers for it. With its own token: a plugin's pod could be deleted, another not."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bystander"}, "spec": HARMLESS}
    site.read("create", f"--namespace={site.namespace}", "--filename=-", text=json.dumps(pod))
    before = _plugins(site)
    with site.release("rights", "--no-hooks", "--set=hook.enabled=true", "--set=dryRun=false", NO_CONTROLLER) as done:
        assert done.returncode == 0, done.stderr
        objects = [item for item in yaml.safe_load_all(site.run_helm("get", "manifest", "rights").stdout) if item]
        (account,) = {item["subjects"][0]["name"] for item in objects if item["kind"] == "ClusterRoleBinding"}
        roles = [item for item in objects if item["kind"] == "ClusterRole"]
        granted = {right for role in roles for right in rights(role["rules"])}
        own = site.acting_as(account)
        assert granted
        assert {right for right in granted | OUT_OF_REACH if _may(site, own, right)} == granted - OUT_OF_REACH
        if not any(item["kind"] == "ValidatingAdmissionPolicy" for item in objects):
            assert embedded is None
            pytest.skip("there is no admission policy: your values, or the API server, turn it off")

        def refused() -> str:
            return _try_delete(site, own, f"{site.namespace}/bystander").stderr

        patience.until(lambda: "ValidatingAdmissionPolicy" in refused(), refused, PATIENCE)
        allowed = [_try_delete(site, own, plugin) for plugin in list(before)[:1]]
    assert [one.stderr for one in allowed if one.returncode] == []
    assert before == _plugins(site)


def test_every_variant_runs_and_restarts_nothing(site: Site, subtests: pytest.Subtests) -> None:
    """Each as a dry run, under restricted Pod Security: the image is pulled, starts, reads, and reports."""
    before = _plugins(site)
    dry = [variant for variant in VARIANTS if variant not in CONTROLLERS]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        reports = list(pool.map(lambda variant: _dry_run(site, variant), dry))
    for variant, (done, report) in zip(dry, reports, strict=True):
        with subtests.test(variant.name):
            assert done.returncode == 0, done.stdout + done.stderr
            assert report["exitCode"] == 0
            assert report["restarted"] == 0
    assert before == _plugins(site)


def test_a_controller_becomes_ready_and_restarts_nothing(site: Site, subtests: pytest.Subtests) -> None:
    """It looks for plugins in this test's namespace alone, where there are none; policy and program confine it."""
    # That it is ready shows that its image runs under restricted Pod Security, that the kubelet reaches its probes, and
    # that it may hold its Lease and read what it must.
    before = _plugins(site)
    only_here = (f"--set=plugin.namespace={site.namespace},dryRun=false", NO_CLIENTS)
    for variant in CONTROLLERS:
        name = variant.name.removesuffix("-values.yaml")
        with (
            subtests.test(name),
            site.release(name, f"--values={variant}", *only_here, INSTALL_TIMEOUT, "--wait") as done,
        ):
            assert done.returncode == 0, done.stdout + done.stderr
            patience.until(partial(_leads, site, name), "it holds its Lease", PATIENCE)
    assert before == _plugins(site)


def _leads(site: Site, name: str) -> bool:
    """Whether the controller of a release holds its Lease."""
    lease = ("leases", f"--namespace={site.namespace}", f"--field-selector=metadata.name={LEASE % name}")
    return [bool(each["spec"].get("holderIdentity")) for each in site.items(*lease)] == [True]


def test_status_evaluates_every_node(site: Site, tmp_path: Path) -> None:
    """From here, with the user's own credentials."""
    done = run(tmp_path, "status", f"--kubeconfig={site.kubeconfig}", "--output=json")
    assert done.code == 0, done.said
    assert json.loads(done.out)["phase"]


def test_stale_plugins_are_restarted(site: Site, may_restart: bool, embedded: Lab | None, tmp_path: Path) -> None:
    """Only if asked for: the real thing, at whose end no plugin is stale."""
    if not may_restart:
        pytest.skip("restarts stale plugins: ask for it with --test_extra_info restart=yes")
    before = _plugins(site)
    with site.release("for-real", REAL_TIMEOUT, KEEP_THE_JOB, NO_CONTROLLER, "--wait", "--wait-for-jobs") as done:
        report = _report(site, "for-real")
        assert done.returncode == 0, f"{done.stdout}{done.stderr}{report}"
    restarted = set(before.items()) - set(_plugins(site).items())
    assert report["restarted"] == len(restarted)
    status = json.loads(run(tmp_path, "status", f"--kubeconfig={site.kubeconfig}", "--output=json").out)
    assert [node for node in status["nodes"] if "Stale" in node["reason"]] == []
    if embedded is not None:
        assert len(restarted) == 1
        embedded.assert_clean(["gpu-0"])


def _may(site: Site, kubeconfig: Path, right: Right) -> bool:
    """Ask the API server whether an account has a right everywhere."""
    resource, _, subresource = right.resource.partition("/")
    names = (f"{resource}.{right.group}" if right.group else resource, f"--subresource={subresource}")
    done = site.kubectl("auth", "can-i", right.verb, *names, "--all-namespaces", kubeconfig=kubeconfig)
    assert done.stdout.startswith(("yes", "no")), done.stderr
    return done.stdout.startswith("yes")


def _try_delete(site: Site, kubeconfig: Path, pod: str) -> Done:
    namespace, _, name = pod.partition("/")
    url = f"/api/v1/namespaces/{namespace}/pods/{name}?dryRun=All"
    return site.kubectl("delete", f"--raw={url}", kubeconfig=kubeconfig)


def _dry_run(site: Site, variant: Path) -> tuple[Done, dict[str, Any]]:
    name = variant.name.removesuffix("-values.yaml")
    wait = (KEEP_THE_JOB, INSTALL_TIMEOUT, "--wait", "--wait-for-jobs")
    with site.release(name, f"--values={variant}", "--set=dryRun=true", NO_CONTROLLER, *wait) as done:
        return done, _report(site, name)


def _report(site: Site, release: str) -> dict[str, Any]:
    """Return the termination message of a release's pod; it is empty where no pod came to its end."""
    pods = site.items("pods", f"--namespace={site.namespace}", f"--selector=app.kubernetes.io/instance={release}")
    statuses = (status for pod in pods for status in pod["status"].get("containerStatuses", ()))
    messages = [one["state"]["terminated"].get("message", "") for one in statuses if "terminated" in one["state"]]
    return dict(json.loads(messages[-1])) if messages else {}
