"""The command line: it parses flags, prints errors, and sets the exit code."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from hook import __version__
from hook.decide.reasons import Reason
from hook.decide.result import Decision, Phase, headline
from hook.decide.run import margin
from hook.decide.workloads import Affected
from hook.errors import (
    UNAUTHORIZED,
    ApiError,
    HookError,
    LeaseLostError,
    PermissionDeniedError,
    SettingsError,
    TerminatedError,
    UntrustedError,
)
from hook.flags import (
    CONTROLLER,
    LOGGING,
    NAMESPACE,
    POD,
    RUN,
    WHAT,
    WHERE,
    Program,
    examples,
    flags,
    settings_of,
)
from hook.kube import client, events, retry
from hook.kube.cache import Cache
from hook.kube.own import own_job
from hook.kube.taints import Release
from hook.log import complain, configure, end_on_signals, ignore_signals, settle, write
from hook.objects.names import OWN_NAME
from hook.objects.stacks import STACKS
from hook.run import report, workloads
from hook.run.clock import Clock
from hook.run.job import EXIT_FAILED, RESULTS, Outcome, Runner
from hook.run.statusobject import StatusObject
from hook.run.taints import TaintKeeper
from hook.settings import LogFormat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hook.kube.client import Api
    from hook.kube.own import Job
    from hook.run.controller import Controller
    from hook.run.status import View
    from hook.settings import Settings


log = logging.getLogger(__name__)

EXIT_OTHER: Final = 1
NOTHING: Final = Affected()
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130
"""As a shell reports a program that Ctrl-C ended."""
OUTPUTS: Final = ("table", "json")
EXIT_CODE: Final = click.option(
    "--exit-code",
    is_flag=True,
    help="For scripts: exit 3 if a plugin is stale or a node has failed; 0 otherwise, also while nodes wait or "
    "restart, so 0 does not mean done. Refused credentials or permissions give 3, too; an unexpected failure gives 1.",
)
CONTEXT: Final = {"help_option_names": ["-h", "--help"]}
REASON_OF_ERROR: Final = (
    (TerminatedError, Reason.TERMINATED),
    (LeaseLostError, Reason.LEASE_LOST),
    (PermissionDeniedError, Reason.PERMISSION_MISSING),
    (UntrustedError, Reason.CERTIFICATE_REFUSED),
)


@click.group(cls=Program, context_settings=CONTEXT)
@click.version_option(__version__)
def main() -> None:
    """Restart the DRA kubelet plugins that a GPU driver upgrade left stale, and verify them.

    Exit codes: 0 done or nothing to do, 1 temporary error (try again), 2 usage error,
    3 manual action required, 124 timeout, 143 stopped by SIGTERM. Settings come from
    --config FILE, or else from the environment variable GPU_OPERATOR_POST_CONFIG.
    """


@main.command(
    short_help="Refresh the stale plugins of one upgrade, then end.",
    epilog=examples(OWN_NAME, "run --dry-run", "run --context=prod --timeout=25m"),
)
@flags(RUN, POD, WHAT, NAMESPACE, WHERE, LOGGING)
def run(**values: Any) -> NoReturn:  # noqa: ANN401 - click passes parsed flags
    """Wait for each node's driver, restart the stale plugins, and verify them."""
    _start(values, _run, controller=False)


@main.command(
    short_help="Refresh stale plugins after any driver reload.",
    epilog=examples(OWN_NAME, "controller --release-namespace=gpu-operator"),
)
@flags(CONTROLLER, POD, WHAT, NAMESPACE, WHERE, LOGGING)
def controller(**values: Any) -> NoReturn:  # noqa: ANN401 - click passes parsed flags
    """Restart the plugins that driver reloads leave stale, and verify them, all the time."""
    _start(values, _control, controller=True)


def _start(
    values: dict[str, Any], command: Callable[[Api, Settings, Mapping[str, Any]], int], *, controller: bool
) -> NoReturn:
    """Start a command that writes to the cluster, and exit with its code."""
    end_on_signals()
    try:
        settings = settings_of(values, controller=controller)
        configure(settings.log_format, settings.log_level, sys.stdout)
        code = command(connect(values), settings, values)
    except SettingsError as error:
        _give_up(error, values["termination_log"])
    except TerminatedError as error:
        code = error.exit_code
    settle()
    sys.exit(code)


@main.command(
    short_help="Show the state of each node.", epilog=examples(OWN_NAME, "status", "status -o json --exit-code")
)
@flags(WHAT, NAMESPACE, WHERE, LOGGING)
@click.option("-o", "--output", type=click.Choice(OUTPUTS), default=OUTPUTS[0], show_default=True)
@EXIT_CODE
def status(**values: Any) -> NoReturn:  # noqa: ANN401 - click passes parsed flags
    """Show the state of each node, read-only, with the same evaluation as run."""
    from hook.run.status import Viewer  # noqa: PLC0415 - a Job imports only what it needs, to start sooner

    with ending():
        viewer = Viewer(*opened(values))
        view = viewer.look()
        viewer.stop()
        show(view, values)


def opened(values: Mapping[str, Any]) -> tuple[Api, Settings]:
    """Return the cluster and the settings of a command that only reads. Raises HookError."""
    settings = settings_of(values)
    configure(settings.log_format, settings.log_level, sys.stderr)
    return connect(values), settings


def show(view: View, values: Mapping[str, Any]) -> NoReturn:
    """Print a view, and exit: with the code for scripts, if that is asked for. Raises OutputError."""
    write(view.shown(values["output"]))
    sys.exit(EXIT_FAILED if values["exit_code"] and view.wrong else 0)


@contextlib.contextmanager
def ending() -> Iterator[None]:
    """Print an error of a command that only reads, and exit with its code; an interrupt is no error."""
    try:
        yield
    except HookError as error:
        complain(error)
        sys.exit(_exit_code(error))
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)


def connect(values: Mapping[str, Any]) -> Api:
    """Connect as the flags name the cluster and the account. Raises HookError."""
    return client.connect(
        values["kubeconfig"], values["context"], values.get("service_account_dir", client.SERVICE_ACCOUNT_DIR)
    )


def _run(api: Api, settings: Settings, values: Mapping[str, Any]) -> int:
    """Run, report the outcome in any case, and return the exit code."""
    ours = settings.timeout - margin(settings)
    patience, clock = retry.Patience(min(settings.advanced.api_patience, ours).total_seconds()), Clock()
    cache = Cache(api, settings, patience)
    job: Job | None = None
    runner: Runner | None = None
    stopped = False
    namespace = _own_namespace(values)
    taints = TaintKeeper(api, settings, Release(namespace, values["release_name"], "job"))
    try:
        job = own_job(api, namespace, values["job_name"], patience, ours.total_seconds())
        recorder = events.EventRecorder(api, job.reference.uid if job else "", silent=settings.dry_run)
        status = _status_object(api, settings, values)
        runner = Runner(api, cache, settings, recorder, job, status, clock, taints)
        outcome = runner.run()
    except (HookError, TerminatedError) as error:
        outcome = _outcome_of(error, runner.last if runner else None)
        stopped = isinstance(error, TerminatedError)
    ignore_signals()
    cache.stop()
    affected = runner.workloads.affected if runner else NOTHING
    restarted = runner.restarted if runner else 0
    # First, because the process may be killed meanwhile.
    _show_result(outcome, restarted, settings, values)
    left = runner.seconds_to_report if runner else 0.0
    taints.end(job if outcome.exit_code not in RESULTS else None, left, stopped=stopped)
    if runner is not None:
        runner.show_end(outcome)
        if stopped:
            runner.stop_events()
        else:
            runner.report_end(outcome.decision)
    # Last, because standard output may be a full disk, or a pipe that is not read.
    _report(outcome, restarted, settings, affected)
    return outcome.exit_code


def _status_object(api: Api, settings: Settings, values: Mapping[str, Any]) -> StatusObject | None:
    if not values["status_name"] or settings.dry_run:
        return None
    return StatusObject(api, _own_namespace(values), values["status_name"])


def _control(api: Api, settings: Settings, values: Mapping[str, Any]) -> int:
    """Run as controller, report the error that ended it, and return the exit code."""
    # A Job does not import elections and metrics, which cost memory.
    from hook.kube.election import LeaderElectionConfig  # noqa: PLC0415
    from hook.run.controller import Identity, begin, own_identity  # noqa: PLC0415

    identity = values["identity"] or own_identity()
    election = LeaderElectionConfig(_own_namespace(values), values["lease_name"], identity, stack=settings.stack)
    who = Identity(election, values["workload_name"], values["status_name"], values["release_name"])
    started: Controller | None = None
    try:
        started = begin(api, settings, who, values["listen"])
        started.run()
    except (HookError, TerminatedError) as error:
        ignore_signals()
        if started is not None:
            started.stop()
        outcome = _outcome_of(error, started.last if started else None)
        if isinstance(error, TerminatedError):
            outcome = replace(outcome, decision=_stopped(outcome.decision))
    restarted = started.restarted if started else 0
    _show_result(outcome, restarted, settings, values)
    _report(outcome, restarted, settings)
    return outcome.exit_code


def _stopped(decision: Decision) -> Decision:
    """Return the decision on a controller that a signal stopped. That is no failure: the next leader continues."""
    return replace(decision, phase=Phase.WAIT, reason=Reason.CONTROLLER_STOPPED)


def _own_namespace(values: Mapping[str, Any]) -> str:
    if values["release_namespace"]:
        return str(values["release_namespace"])
    try:
        return (Path(values["service_account_dir"]) / "namespace").read_text(encoding="utf-8").strip()
    except OSError:
        return "default"


def _show_result(outcome: Outcome, restarted: int, settings: Settings, values: Mapping[str, Any]) -> None:
    """Write the termination message."""
    message = report.termination_message(outcome.decision, outcome.exit_code, restarted, STACKS[settings.stack])
    _write_termination_message(message, values["termination_log"])


def _report(outcome: Outcome, restarted: int, settings: Settings, affected: Affected = NOTHING) -> None:
    """Write the result to standard output."""
    decision, stack = outcome.decision, STACKS[settings.stack]
    facts: dict[str, Any] = {}
    if settings.log_format is LogFormat.JSON:
        facts = {"report": {**report.as_json(decision), "affectedWorkloads": workloads.as_json(affected)}}
    elif rows := report.table(decision):
        _print(rows)
    for warning in (*decision.warnings, *workloads.summary(affected)):
        log.warning("%s", warning)
    log.log(logging.ERROR if decision.unhappy else logging.INFO, "%s", headline(decision), extra={"facts": facts})
    for advice in report.advice(decision, stack) if decision.phase is not Phase.DONE else ():
        if settings.log_format is LogFormat.JSON:
            log.info("%s", advice)
        else:
            _print("\n".join(advice.lines))
    log.info("exit code %d, plugins restarted: %d", outcome.exit_code, restarted)


def _print(text: str) -> None:
    """Write lines without a time, so that they can be copied. A run does not depend on its output."""
    with contextlib.suppress(OSError):
        click.echo(text)


def _outcome_of(error: HookError | TerminatedError, last: Decision | None) -> Outcome:
    """Return the error that ended a run as a decision, with the last known state of the nodes."""
    unauthorized = isinstance(error, ApiError) and error.status == UNAUTHORIZED
    other = Reason.UNAUTHORIZED if unauthorized else Reason.API_UNREACHABLE
    reason = next((reason for kind, reason in REASON_OF_ERROR if isinstance(error, kind)), other)
    statuses = last.statuses if last else ()
    return Outcome(Decision(Phase.FAIL, reason, str(error), statuses=statuses), _exit_code(error))


def _exit_code(error: HookError | TerminatedError) -> int:
    if isinstance(error, TerminatedError):
        return error.exit_code
    if isinstance(error, SettingsError):
        return EXIT_USAGE
    return EXIT_FAILED if isinstance(error, ApiError) and error.denied else EXIT_OTHER


def _give_up(error: SettingsError, termination_log: str) -> NoReturn:
    """End with a usage error before any request to the cluster."""
    complain(error)
    _write_termination_message(json.dumps({"phase": Phase.FAIL, "message": str(error)}), termination_log)
    sys.exit(EXIT_USAGE)


def _write_termination_message(message: str, path: str) -> None:
    """Write the file that the kubelet created. Outside of a pod there is none."""
    target = Path(path)
    try:
        if target.exists():
            target.write_text(message, encoding="utf-8")
    except OSError as error:
        log.warning("cannot write the termination message: %s", error)
