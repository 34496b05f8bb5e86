"""Every reason that a judgement or a verdict can carry. People grep for these: they do not change lightly."""

from __future__ import annotations

from enum import StrEnum, unique


@unique
class Reason(StrEnum):
    """CamelCase, as Kubernetes conditions have it."""

    # A node is done with.
    VERIFIED = "Verified"
    NOTHING_TO_REFRESH = "NothingToRefresh"

    # A node is left alone.
    NODE_SKIPPED = "NodeSkipped"
    NODE_NOT_READY = "NodeNotReady"
    HOST_DRIVER = "HostDriver"
    DRIVER_NOT_DEPLOYED = "DriverNotDeployed"
    VIRTUAL_MACHINE_NODE = "VirtualMachineNode"
    MANUAL_UPGRADE = "ManualUpgrade"

    # A node's driver is not settled.
    UNREADABLE = "Unreadable"
    NODE_BLIP = "NodeBlip"
    LABELS_MISSING = "LabelsMissing"
    EXPECTATION_UNMET = "ExpectationUnmet"
    NOT_RENDERED = "NotRendered"
    DRIVER_MISSING = "DriverMissing"
    SEVERAL_DRIVER_PODS = "SeveralDriverPods"
    DRIVER_ORPHANED = "DriverOrphaned"
    DRIVER_OUTDATED = "DriverOutdated"
    DRIVER_NOT_READY = "DriverNotReady"
    DRIVER_FAILING = "DriverFailing"
    UPGRADE_IN_PROGRESS = "UpgradeInProgress"
    UPGRADE_STATE_UNKNOWN = "UpgradeStateUnknown"
    OPERANDS_PAUSED = "OperandsPaused"
    UPGRADE_FAILED = "UpgradeFailed"
    PRIOR_DRIVER_UNSETTLED = "PriorDriverUnsettled"
    PROVIDER_NOT_READY = "ProviderNotReady"
    POLICY_SAYS_NOT_READY = "PolicySaysNotReady"

    # A node's plugin is not verified.
    PLUGIN_STALE = "PluginStale"
    PLUGIN_SUSPECT = "PluginSuspect"
    PLUGIN_QUEUED = "PluginQueued"
    PLUGIN_RESTARTING = "PluginRestarting"
    PLUGIN_MISSING = "PluginMissing"
    PLUGIN_STARTING = "PluginStarting"
    PLUGIN_NOT_READY = "PluginNotReady"
    SLICE_MISSING = "SliceMissing"
    SLICE_OUTDATED = "SliceOutdated"
    PLUGIN_UNWELCOME = "PluginUnwelcome"
    RESTART_REFUSED = "RestartRefused"
    RESTART_DID_NOT_HELP = "RestartDidNotHelp"
    RESTART_BACKED_OFF = "RestartBackedOff"
    ROLLOUT_IMPOSSIBLE = "RolloutImpossible"

    # The whole cluster.
    NO_CONSUMER = "NoConsumer"
    NO_POLICY = "NoPolicy"
    POLICY_EXPECTED = "PolicyExpected"
    DRIVER_DISABLED = "DriverDisabled"
    OPERATOR_MANAGED = "OperatorManagedPlugin"
    NO_ELIGIBLE_NODE = "NoEligibleNode"
    UNNAMED_CONSUMER = "UnnamedConsumer"
    OPERATOR_ROLLING_OUT = "OperatorRollingOut"
    OPERATOR_NOT_LEADING = "OperatorNotLeading"
    OPERATOR_SETTLING = "OperatorSettling"
    UPGRADE_LABELS_PENDING = "UpgradeLabelsPending"
    POLICY_NOT_READY = "PolicyNotReady"
    NODES_PENDING = "NodesPending"
    BREAKER_OPEN = "BreakerOpen"
    REFRESHED = "Refreshed"
    NOTHING_STALE = "NothingStale"
    DRIVER_SETTLED = "DriverSettled"
    HANDED_OVER = "HandedOver"
    FOLLOWER_MISSING = "FollowerMissing"
    TIME_UP = "TimeUp"
    STALLED = "Stalled"
    PERMISSION_MISSING = "PermissionMissing"
    API_UNREACHABLE = "ApiUnreachable"
    UNAUTHORIZED = "Unauthorized"
    TERMINATED = "Terminated"
    LEASE_LOST = "LeaseLost"


@unique
class EventReason(StrEnum):
    """What Events carry beside the reasons above, with which a run's end is told."""

    STALE_PLUGIN_RESTARTED = "StalePluginRestarted"
    NODE_FAILED = "NodeFailed"
    WAITING_FOR_DRIVER = "WaitingForDriver"
    BREAKER_CLOSED = "BreakerClosed"
