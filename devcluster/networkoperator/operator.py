"""Carry out the NicClusterPolicy: render the driver and the device plugins, and say how that stands."""

from __future__ import annotations

import asyncio
from typing import Any

from devcluster.client import path
from devcluster.controller.objects import labels_of, name_of
from devcluster.controller.operator import Operator
from devcluster.networkoperator.render import DRIVER, WAIT, daemonsets

Object = dict[str, Any]

POLICIES = path("mellanox.com/v1alpha1", "nicclusterpolicies")

POLICY = "nic-cluster-policy"
"""The only policy that counts."""


class NetworkOperator(Operator):
    """The network operator."""

    driver = "ofed"
    kinds = (POLICIES,)

    async def reconcile(self) -> None:
        """Carry out the policy, and label the nodes whose device plugins wait no longer."""
        policy = next((each for each in self.all(POLICIES) if name_of(each) == POLICY), None)
        if policy is None:
            return
        wanted = daemonsets(policy)
        await self.apply(policy, wanted.values())
        loaded = {pod["spec"].get("nodeName") for pod in self.pods if is_ready_driver(pod)}
        waiting = (node for node in self.nodes if name_of(node) in loaded and labels_of(node).get(WAIT) != "false")
        await asyncio.gather(*(self.patch_node(node, {"labels": {WAIT: "false"}}) for node in waiting))
        if self.is_due(policy):
            ready = {name_of(each) for each in self.daemonsets_of(policy) if is_ready(each)}
            states = {state: "ready" if name_of(each) in ready else "notReady" for state, each in wanted.items()}
            overall = "ready" if set(states.values()) == {"ready"} else "notReady"
            applied = [{"name": name, "state": state} for name, state in states.items()]
            await self.report(POLICIES, policy, {"state": overall, "appliedStates": applied})


def is_ready(daemonset: Object) -> bool:
    """Judge a DaemonSet as the real one does: pods everywhere, all of them new, and never without any.

    It does not ask whether the status is of this generation.
    """
    status = daemonset.get("status", {})
    desired = status.get("desiredNumberScheduled", 0)
    return bool(desired != 0 and desired == status.get("numberAvailable") == status.get("updatedNumberScheduled"))


def is_ready_driver(pod: Object) -> bool:
    """Return whether a pod is a driver's whose container, the first, is ready."""
    containers = pod.get("status", {}).get("containerStatuses", [])
    return DRIVER in labels_of(pod) and bool(containers) and bool(containers[0]["ready"])
