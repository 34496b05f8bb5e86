"""What a reason consists of: the columns of the table in ``reasons.py``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import TYPE_CHECKING

from hook.objects.drivers import selector

if TYPE_CHECKING:
    from typing import Self

    from hook.objects.drivers import Stack


class Trait(Enum):
    """Property of a reason that the program acts on."""

    BLOCKED = auto()
    """The node waits for its turn or for an administrator. With any other reason it may still progress by itself."""
    WAITS_FOR_TURN = auto()
    """The upgrade controller has not restarted the driver of this node yet."""
    DRIVER_NOT_MANAGED = auto()
    """The node has no driver that the operator could reload."""
    NODE_ALONE = auto()
    """The Node object alone excludes the node. Its pods do not matter."""
    RELEASE_PENDING = auto()
    """The policy does not show the expected release: a plugin that restarts now would be stale after the reload."""
    FIRST_LOAD = auto()
    """A node that has just joined may be in this state until its first driver is loaded."""
    UPGRADE_TO_COME = auto()
    """The drivers of the release may still be reloaded, so no failure ends the run: the release needs it later."""
    FAILING = auto()
    """The node fails, but may recover: a run waits first, ``status`` reports the failure at once."""
    STALE = auto()
    """The plugin started on a driver that is gone."""
    FRESH = auto()
    """The plugin started on the loaded driver, but may not be Ready. A reason with neither trait proves nothing about
    the plugin."""
    PLUGIN_DOWN = auto()
    """The plugin does not publish or prepare devices: it is starting, or has failed."""
    PASSING = auto()
    """The state normally lasts seconds, so it is logged at debug level only."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The meaning of a reason, where to look, and what may fix it.

    Each text may contain the words of a driver stack, as ``words`` returns them. The commands and the
    precondition may also contain ``{node}``, and ``{namespace}`` and ``{name}`` of the pod that the reason is about.
    """

    meaning: str
    look: str = ""
    """A command that changes nothing."""
    fix: str = ""
    """A command that changes something."""
    precondition: str = ""
    """What must be true, or done, before the fix."""

    def __post_init__(self) -> None:
        """Reject a fix without a precondition."""
        if self.fix and not self.precondition:
            raise ValueError(f"{self.fix}: a fix needs a precondition")

    @property
    def steps(self) -> str:
        """Return the commands with their precondition, as one text."""
        look = f"Look: {self.look}" if self.look else ""
        fix = f"To fix, {self.precondition}: {self.fix}" if self.fix else ""
        return " ".join(filter(None, (look, fix)))

    def __str__(self) -> str:
        return " ".join(filter(None, (self.meaning, self.steps)))


class Row(StrEnum):
    """Code of a reason, as in Kubernetes conditions, with its explanation and traits."""

    explanation: Explanation
    traits: frozenset[Trait]

    def __new__(cls, code: str, explanation: Explanation, traits: frozenset[Trait]) -> Self:
        """Create a member that is equal to its code."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.explanation, member.traits = explanation, traits
        return member


def row(
    code: str, meaning: str, *traits: Trait, look: str = "", fix: str = "", precondition: str = ""
) -> tuple[str, Explanation, frozenset[Trait]]:
    """Return the arguments of a ``Row``."""
    return code, Explanation(meaning, look, fix, precondition), frozenset(traits)


def remedy(reason: Row, stack: Stack, node: str = "", subject: str = "") -> str:
    """Return the explanation of a reason as one text."""
    return str(explained(reason, stack, node, subject))


def explained(reason: Row, stack: Stack, node: str = "", subject: str = "") -> Explanation:
    """Return the explanation of a reason with the names of its node and pod. Unknown names are in capitals."""
    namespace, _, name = subject.partition("/")
    about = {"node": node or "NODE", "namespace": namespace or "NAMESPACE", "name": name or "NAME"}
    known = {**words(stack), **about}
    plain = reason.explanation
    fix = plain.fix.replace("{failed_upgrade_command}", stack.failed_upgrade_command)
    return Explanation(*(text.format(**known) for text in (plain.meaning, plain.look, fix, plain.precondition)))


def words(stack: Stack) -> dict[str, str]:
    """Return the words for the parts of a driver stack in explanations."""
    annotation, configured = stack.nodes.safe_load, stack.plugin.tolerations
    counted = ", and cordoned, NotReady and failed nodes count against maxUnavailable, where the policy has it"
    return {
        "stack": stack.name,
        "operator": stack.operator.title,
        "operator_labels": stack.operator.selector,
        "policy": stack.policy.kind,
        "policies": f"{stack.policy.plural}.{stack.policy.group}",
        "present_label": stack.nodes.present,
        "state_label": stack.upgrade.state,
        "skip_label": stack.upgrade.skip,
        "lease": stack.operator.lease,
        "drivers": selector(stack.driver.label),
        "noun": stack.plugin.noun,
        "device": stack.device,
        "annotated": f" If the node has the annotation {annotation}, remove that as well." if annotation else "",
        "counted": counted if stack.upgrade.counts_unavailable else "",
        "tolerations": f" ({configured})" if configured else "",
    }
