"""Whether the times that a pod's status tells can be true together.

The proofs of freshness rest on a few times that one kubelet writes. A clock that was set back, a broken writer
or a hand in the status leave times behind that contradict each other: such a pod proves nothing, so it counts as
unreadable. It is waited for, never called fresh, and never restarted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from hook.objects.views import Container, Pod


def contradiction(pod: Pod, ready_since: datetime | None) -> str:
    """Name two times of a pod that cannot both be true; or empty. Equal ones can.

    `ready_since` is the last transition of its Ready condition.
    """
    since = pod.containers_ready_since
    if pod.ready and since is not None and ready_since is not None and ready_since < since:
        # The kubelet sets ContainersReady first (K8S pkg/kubelet/status, updateStatusInternal).
        return "Ready is older than ContainersReady, without which no pod is Ready"
    return next(filter(None, (_impossible(one, pod) for one in pod.containers)), "")


def _impossible(container: Container, pod: Pod) -> str:
    """Compare the start of a main container's current run with what must have come before or after it."""
    started, since = container.started_at, pod.containers_ready_since
    if started is None:
        return ""
    if since is not None and since < started and not container.restarts:
        # After a restart it may have: one that a liveness probe asks for happens within one look of the kubelet, which
        # never sees the container down unless another probe makes it unready (K8S pkg/kubelet, SyncPod).
        return f"container {container.name} started after all containers were ready"
    if container.last_finished_at is not None and started < container.last_finished_at:
        return f"container {container.name} started before its last run ended"
    # Also after a reboot: init containers run again before any main container does.
    ended = (one.finished_at for one in pod.init_containers)
    if any(end is not None and started < end for end in ended):
        return f"container {container.name} started before an init container ended"
    return ""
