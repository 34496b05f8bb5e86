"""Which stacks and consumers the flags name, and what is refused with a sentence."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click
import pytest

from hook.config import EventTarget, Mode, OnManualUpgrade, OnMissingPlugin, Settings, Wanted, settings_from
from hook.errors import SettingsError
from hook.flags import Bounded
from hook.format import Bound

BOTH = ("gpu", "network")


def settings(*, controller: bool = False, **values: Any) -> Settings:  # noqa: ANN401 - as click gives them
    """Return settings of parsed flags."""
    return settings_from(values, controller=controller)


@pytest.mark.parametrize(
    ("stacks", "text", "expected"),
    [
        pytest.param(("gpu",), "mine", Wanted("gpu", name="mine"), id="of-the-only-stack"),
        pytest.param(("network", "gpu"), "mine", Wanted("network", name="mine"), id="of-the-first-stack"),
        pytest.param(BOTH, "network:mine", Wanted("network", name="mine"), id="with-its-stack"),
        pytest.param(BOTH, "gpu:my.name-1", Wanted("gpu", name="my.name-1"), id="with-the-first-stack"),
    ],
)
def test_a_consumers_name_belongs_to_a_stack(stacks: tuple[str, ...], text: str, expected: Wanted) -> None:
    """The one before the colon, else the first that is served."""
    assert (expected,) == settings(stacks=stacks, plugin_names=(text,)).plugin_names


def test_the_deployers_objects_are_named_as_permissions_name_them() -> None:
    """The plural with its group; each counts once."""
    flux, argo = "helmreleases.helm.toolkit.fluxcd.io/flux-system/post", "applications.argoproj.io/argocd/a.b"
    assert settings(event_targets=(flux, argo, flux)).event_targets == (
        EventTarget("helmreleases", "helm.toolkit.fluxcd.io", "flux-system", "post"),
        EventTarget("applications", "argoproj.io", "argocd", "a.b"),
    )
    assert [flux, argo] == [str(one) for one in settings(event_targets=(flux, argo)).event_targets]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("HelmRelease/flux-system/post", id="kind"),
        pytest.param("helmreleases/flux-system/post", id="no-group"),
        pytest.param("helmreleases.helm.toolkit.fluxcd.io/post", id="no-namespace"),
        pytest.param("helmreleases.helm.toolkit.fluxcd.io//post", id="empty-namespace"),
        pytest.param("a.b/c/d/e", id="four-parts"),
        pytest.param("a.b/c.d/e", id="dotted-namespace"),
        pytest.param("a.b/../d", id="path"),
        pytest.param("a.b/c/d?x", id="query"),
        pytest.param("a.b/c/d\n", id="line"),
        pytest.param(f"a.{'b' * 63}.{'c' * 63}.{'d' * 63}.{'e' * 62}/f/g", id="long-group"),
    ],
)
def test_a_malformed_object_is_a_usage_error(text: str) -> None:
    """It would be looked for in vain, at the end of every run."""
    with pytest.raises(SettingsError, match=r"RESOURCE\.GROUP/NAMESPACE/NAME"):
        settings(event_targets=(text,))


def test_a_few_objects_are_enough() -> None:
    """Each takes its time at the end of a run."""
    names = [f"a.b/c/d{number}" for number in range(5)]
    assert 4 == len(settings(event_targets=[*names[:4], *names[:4]]).event_targets)
    with pytest.raises(SettingsError, match="names 5 objects, at most 4 are allowed"):
        settings(event_targets=names)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("monitoring/dcgm-exporter", Wanted("gpu", "monitoring", "dcgm-exporter"), id="by-name"),
        pytest.param("network:kube-system/x", Wanted("network", "kube-system", "x"), id="by-name-with-its-stack"),
        pytest.param("app=x", Wanted("gpu", labels=(("app", "x"),)), id="by-a-label"),
        pytest.param("app==x", Wanted("gpu", labels=(("app", "x"),)), id="by-a-label-as-kubectl-has-it"),
        pytest.param("app.kubernetes.io/name=x,team=y",
                     Wanted("gpu", labels=(("app.kubernetes.io/name", "x"), ("team", "y"))), id="by-two-labels"),
        pytest.param("network:app=x", Wanted("network", labels=(("app", "x"),)), id="by-a-label-with-its-stack"),
        pytest.param("example.com/empty=", Wanted("gpu", labels=(("example.com/empty", ""),)), id="an-empty-value"),
    ],
)  # fmt: skip
def test_a_further_consumer_is_a_name_or_labels(text: str, expected: Wanted) -> None:
    """Both in one flag: a name has a slash and no equals sign."""
    assert (expected,) == settings(stacks=BOTH, plugins=(text,)).plugins


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        pytest.param("plugin_names", "", id="no-name"),
        pytest.param("plugin_names", "Upper", id="upper-case-name"),
        pytest.param("plugin_names", "a/b", id="name-with-a-namespace"),
        pytest.param("plugin_names", "gpu:", id="stack-without-a-name"),
        pytest.param("plugin_names", "disk:mine", id="name-of-an-unknown-stack"),
        pytest.param("plugins", "", id="nothing"),
        pytest.param("plugins", "name-alone", id="no-namespace"),
        pytest.param("plugins", "a/", id="no-name-after-the-slash"),
        pytest.param("plugins", "a/b/c", id="a-slash-too-many"),
        pytest.param("plugins", "app in (x)", id="a-set-selector"),
        pytest.param("plugins", "app!=x", id="an-inequality"),
        pytest.param("plugins", "app", id="a-key-alone"),
        pytest.param("plugins", "app=x,", id="an-empty-requirement"),
        pytest.param("plugins", "-app=x", id="no-label-key"),
        pytest.param("plugins", "app=x y", id="no-label-value"),
        pytest.param("plugins", "disk:a/b", id="unknown-stack"),
    ],
)
def test_what_names_no_consumer_is_refused(flag: str, text: str) -> None:
    """With the very text that was wrong."""
    given: dict[str, Any] = {flag: (text,)}
    with pytest.raises(SettingsError) as refused:
        settings(stacks=BOTH, **given)
    assert repr(text) in str(refused.value)


@pytest.mark.parametrize(("flag", "text"), [("plugin_names", "network:a"), ("plugins", "network:a/b")])
def test_a_consumer_of_a_stack_that_is_not_served_is_refused(flag: str, text: str) -> None:
    """It would silently be served by nobody."""
    given: dict[str, Any] = {flag: (text,)}
    with pytest.raises(SettingsError, match=r"network.*--driver"):
        settings(**given)


def test_simpler_behaviours_are_chosen_by_word() -> None:
    """The defaults are the strict ones."""
    plain = settings()
    chosen = settings(on_missing_plugin="wait", on_manual_upgrade="fail", prerequisites=("toolkit",))
    assert (OnMissingPlugin.SKIP, OnManualUpgrade.REPORT, ()) == (
        plain.on_missing_plugin,
        plain.on_manual_upgrade,
        plain.prerequisites,
    )
    assert (OnMissingPlugin.WAIT, OnManualUpgrade.FAIL, ("toolkit",)) == (
        chosen.on_missing_plugin, chosen.on_manual_upgrade, chosen.prerequisites,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("values", "words"),
    [
        pytest.param({"stacks": ("network",), "prerequisites": ("toolkit",)}, "--refresh-after toolkit does not",
                     id="provider-of-another-stack"),
        pytest.param({"stacks": ("network",), "expect_chart_version": "v99"}, "--expect-chart-version",
                     id="chart-of-a-policy-that-says-none"),
    ],
)  # fmt: skip
def test_what_would_have_no_effect_is_refused(values: dict[str, Any], words: str) -> None:
    """Who sets it relies on it."""
    with pytest.raises(SettingsError) as refused:
        settings(**values)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"stacks": ("network", "gpu"), "prerequisites": ("toolkit",)}, id="provider-of-the-second-stack"),
        pytest.param({"stacks": ("network", "gpu"), "expect_chart_version": "v99"}, id="chart-of-the-second-stack"),
    ],
)
def test_what_has_an_effect_on_some_stack_is_taken(values: dict[str, Any]) -> None:
    """It need not be the first one."""
    assert all(value in (getattr(settings(**values), key), str(getattr(settings(**values), key)))
               for key, value in values.items())  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("3", Bound(3), id="a-number"),
        pytest.param("25%", Bound(25, percent=True), id="a-percentage"),
        pytest.param("0", Bound(0), id="nothing"),
        pytest.param("100%", Bound(100, percent=True), id="all"),
        pytest.param("999999", Bound(999_999), id="many"),
        pytest.param(Bound(3), Bound(3), id="read-already"),
    ],
)
def test_a_bound_is_written_as_kubernetes_does(text: object, expected: Bound) -> None:
    """And shown the same way."""
    assert expected == Bounded().convert(text, None, None)
    assert str(text) == str(expected)


@pytest.mark.parametrize(
    "text", ["", "%", "-1", "1.5", "101%", "25 %", "a quarter", "1000000", "\N{ARABIC-INDIC DIGIT ONE}"]
)
def test_what_is_no_bound_is_refused(text: str) -> None:
    """With the very text that was wrong."""
    with pytest.raises(click.BadParameter) as refused:
        Bounded().convert(text, None, None)
    assert repr(text) in str(refused.value)


@pytest.mark.parametrize("controller", [True, False])
def test_what_may_be_down_is_bounded_in_every_run(*, controller: bool) -> None:
    """By one at least."""
    assert Bound(3) == settings(controller=controller, max_unavailable=Bound(3)).max_unavailable
    for none in (Bound(0), Bound(0, percent=True)):
        with pytest.raises(SettingsError, match="--max-unavailable 0"):
            settings(controller=controller, max_unavailable=none)


@pytest.mark.parametrize("pause", [timedelta(), timedelta(hours=2)])
def test_a_pause_that_is_none_or_too_long_is_refused(pause: timedelta) -> None:
    """Longer than the longest it would never be."""
    with pytest.raises(SettingsError, match="--restart-backoff must be"):
        settings(controller=True, restart_backoff=pause)
    whole = settings(controller=True, restart_backoff=timedelta(hours=1))
    assert whole.restart_backoff == whole.restart_backoff_max


def test_a_job_delegates_by_word() -> None:
    """It waits for all by default."""
    assert (Mode.COMPLETE, Mode.DELEGATE) == (settings().mode, settings(mode="delegate").mode)


@pytest.mark.parametrize(("name", "flag"), [("timeout", "--timeout"), ("plugin_timeout", "--plugin-timeout")])
def test_a_run_takes_time(name: str, flag: str) -> None:
    """Without any, each run would end before its first restart."""
    given: dict[str, Any] = {name: timedelta()}
    with pytest.raises(SettingsError, match=f"{flag} must be longer than 0s"):
        settings(**given)
