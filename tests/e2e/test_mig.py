"""``refreshAfter: [mig]``: a plugin that saw the devices before a MIG reconfiguration is refreshed after it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from tests.e2e import acts
from tests.e2e.lab import Boot, Lab

NODE: Final = "gpu-0"
STATE: Final = "nvidia.com/mig.config.state"
AFTER_MIG: Final[Mapping[str, Any]] = {"refreshAfter": ["mig"]}


def _state(lab: Lab) -> str:
    labels: dict[str, str] = lab.cluster.get(f"{acts.NODES}/{NODE}")["metadata"]["labels"]
    return labels.get(STATE, "")


def _divide(lab: Lab, layout: str, *states: str) -> None:
    """Ask for a layout, and wait until the MIG manager has shown these states."""
    acts.set_labels(lab, NODE, {"nvidia.com/mig.config": layout})
    for state in states:
        lab.until(lambda wanted=state: _state(lab) == wanted, f"its MIG state is {state}", acts.PATIENCE)  # type: ignore[misc]


def test_a_job_refreshes_after_a_reconfiguration(boot: Boot) -> None:
    """The API keeps when the label was written, for a Job that starts later. A pending one is waited for."""
    lab = boot(1)
    lab.operator(migManager__enabled=True)
    _divide(lab, "all-disabled", "success")
    time.sleep(1.0)  # The API keeps whole seconds, and a plugin that starts in the second of the label may be older.
    lab.plugin()
    lab.until(lambda: lab.serving() == 1, "the plugin runs", acts.PATIENCE)
    lab.began = time.time()
    acts.post(lab, **AFTER_MIG).assert_phase("Done", "NothingStale")
    _divide(lab, "all-1g.10gb", "pending", "success")
    assert lab.truth.behind_now() == (NODE,)
    acts.refresh(lab, [])
    acts.post(lab, **AFTER_MIG, trigger="second").assert_phase("Done", "Refreshed")
    lab.assert_clean([NODE])
    assert lab.truth.behind_now() == ()
    acts.post(lab, **AFTER_MIG, trigger="third").assert_phase("Done", "NothingStale")

    lab.settings(mig_seconds=8)
    _divide(lab, "all-2g.20gb", "pending")
    acts.post(lab, **AFTER_MIG, trigger="fourth").assert_phase("Done", "Refreshed")
    assert _state(lab) == "success"
    lab.assert_clean([NODE, NODE])
    assert lab.truth.behind_now() == ()

    # More writers than the API server keeps the times of: the one of the label moves. In doubt, that takes one restart.
    for number in range(12):
        lab.cluster.kubectl("label", "node", NODE, f"writer-{number}=here", f"--field-manager=writer-{number}")
    writes = lab.cluster.get(f"{acts.NODES}/{NODE}")["metadata"]["managedFields"]
    assert "ancient-changes" in {write["manager"] for write in writes}
    acts.post(lab, **AFTER_MIG, trigger="fifth").assert_phase("Done", "Refreshed")
    acts.post(lab, **AFTER_MIG, trigger="sixth").assert_phase("Done", "NothingStale")
