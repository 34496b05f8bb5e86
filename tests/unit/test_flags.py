"""Which stacks and consumers the flags name, and what is refused with a sentence."""

from __future__ import annotations

from typing import Any

import pytest

from hook.errors import SettingsError
from hook.flags import settings_from
from hook.settings import Settings, WaitFor, Wanted, WhenAbsent, WhenManual

BOTH = ("gpu", "network")


def settings(**values: Any) -> Settings:  # noqa: ANN401 - as click gives them
    """Give settings of parsed flags."""
    return settings_from(values)


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
    assert (expected,) == settings(stacks=stacks, consumer_names=(text,)).consumer_names


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
    assert (expected,) == settings(stacks=BOTH, consumers=(text,)).consumers


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        pytest.param("consumer_names", "", id="no-name"),
        pytest.param("consumer_names", "Upper", id="upper-case-name"),
        pytest.param("consumer_names", "a/b", id="name-with-a-namespace"),
        pytest.param("consumer_names", "gpu:", id="stack-without-a-name"),
        pytest.param("consumer_names", "disk:mine", id="name-of-an-unknown-stack"),
        pytest.param("consumers", "", id="nothing"),
        pytest.param("consumers", "name-alone", id="no-namespace"),
        pytest.param("consumers", "a/", id="no-name-after-the-slash"),
        pytest.param("consumers", "a/b/c", id="a-slash-too-many"),
        pytest.param("consumers", "app in (x)", id="a-set-selector"),
        pytest.param("consumers", "app!=x", id="an-inequality"),
        pytest.param("consumers", "app", id="a-key-alone"),
        pytest.param("consumers", "app=x,", id="an-empty-requirement"),
        pytest.param("consumers", "-app=x", id="no-label-key"),
        pytest.param("consumers", "app=x y", id="no-label-value"),
        pytest.param("consumers", "disk:a/b", id="unknown-stack"),
    ],
)
def test_what_names_no_consumer_is_refused(flag: str, text: str) -> None:
    """With the very text that was wrong."""
    with pytest.raises(SettingsError) as refused:
        settings(stacks=BOTH, **{flag: (text,)})
    assert repr(text) in str(refused.value)


@pytest.mark.parametrize(("flag", "text"), [("consumer_names", "network:a"), ("consumers", "network:a/b")])
def test_a_consumer_of_a_stack_that_is_not_served_is_refused(flag: str, text: str) -> None:
    """It would silently be served by nobody."""
    with pytest.raises(SettingsError, match=r"network.*--stack"):
        settings(**{flag: (text,)})


def test_simpler_behaviours_are_chosen_by_word() -> None:
    """The defaults are the strict ones."""
    plain = settings()
    chosen = settings(when_absent="wait", when_manual="fail", providers=("toolkit",))
    assert (WaitFor.NODES, WhenAbsent.SKIP, WhenManual.REPORT, ()) == (
        plain.wait_for, plain.when_absent, plain.when_manual, plain.providers,
    )  # fmt: skip
    assert (WhenAbsent.WAIT, WhenManual.FAIL, ("toolkit",)) == (
        chosen.when_absent, chosen.when_manual, chosen.providers,
    )  # fmt: skip
    assert WaitFor.POLICY_READY is settings(wait_for="policy-ready").wait_for


@pytest.mark.parametrize(
    ("values", "words"),
    [
        pytest.param({"stacks": ("network",), "providers": ("toolkit",)}, "--provider toolkit belongs to no chosen",
                     id="provider-of-another-stack"),
        pytest.param({"wait_for": "policy-ready", "providers": ("toolkit",)}, "--provider cannot be waited for",
                     id="provider-by-the-policy-alone"),
        pytest.param({"stacks": ("network",), "expect_chart_version": "v99"}, "--expect-chart-version",
                     id="chart-of-a-policy-that-says-none"),
        pytest.param({"stacks": ("network",), "wait_for": "policy-ready"}, "NicClusterPolicy does not say since when",
                     id="a-policy-that-does-not-say-since-when"),
        pytest.param({"stacks": BOTH, "wait_for": "policy-ready"}, "NicClusterPolicy does not say since when",
                     id="one-of-two-policies-does-not-say-since-when"),
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
        pytest.param({"stacks": ("network", "gpu"), "providers": ("toolkit",)}, id="provider-of-the-second-stack"),
        pytest.param({"stacks": ("network", "gpu"), "expect_chart_version": "v99"}, id="chart-of-the-second-stack"),
        pytest.param({"wait_for": "policy-ready", "expect_chart_version": "v99"}, id="chart-by-the-policy-alone"),
    ],
)
def test_what_has_an_effect_on_some_stack_is_taken(values: dict[str, Any]) -> None:
    """It need not be the first one."""
    assert all(value in (getattr(settings(**values), key), str(getattr(settings(**values), key)))
               for key, value in values.items())  # fmt: skip
