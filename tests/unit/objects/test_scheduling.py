"""Which nodes a pod can run on."""

from __future__ import annotations

import pytest

from hook.objects.scheduling import Requirement, Taint, Term

TAINT = Taint(key="dedicated", value="8", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        pytest.param(Taint(key="dedicated", value="8"), True, id="equal-by-default"),
        pytest.param(Taint(key="dedicated", value="8", operator="Equal", effect="NoSchedule"), True, id="equal"),
        pytest.param(Taint(key="dedicated", value="9"), False, id="another-value"),
        pytest.param(Taint(key="other", value="8"), False, id="another-key"),
        pytest.param(Taint(key="dedicated", value="8", effect="NoExecute"), False, id="another-effect"),
        pytest.param(Taint(value="8"), False, id="no-key"),
        pytest.param(Taint(key="dedicated", operator="Exists"), True, id="exists"),
        pytest.param(Taint(operator="Exists"), True, id="any-taint"),
        pytest.param(Taint(operator="Exists", effect="NoExecute"), False, id="any-taint-of-another-effect"),
        pytest.param(Taint(key="dedicated", operator="Gt", value="7"), True, id="greater"),
        pytest.param(Taint(key="dedicated", operator="Gt", value="8"), False, id="not-greater"),
        pytest.param(Taint(key="dedicated", operator="Lt", value="9"), True, id="less"),
        pytest.param(Taint(key="dedicated", operator="Lt", value="x"), False, id="less-than-no-number"),
        pytest.param(Taint(key="dedicated", operator="Resembles"), True, id="an-unknown-operator"),
    ],
)
def test_a_toleration_lets_a_pod_onto_a_tainted_node(toleration: Taint, tolerated: bool) -> None:
    """As in the scheduler. An operator of a later Kubernetes may tolerate the taint, so it does."""
    assert tolerated is toleration.tolerates(TAINT)


@pytest.mark.parametrize(
    ("operator", "values", "there", "absent"),
    [
        ("In", ("8", ""), True, False),
        ("In", ("9",), False, False),
        ("NotIn", ("8",), False, True),
        ("NotIn", ("9",), True, True),
        ("Exists", (), True, False),
        ("DoesNotExist", (), False, True),
        ("Gt", ("7",), True, False),
        ("Gt", ("8",), False, False),
        ("Gt", ("-9",), True, False),
        ("Gt", ("10",), False, False),
        ("Lt", ("9",), True, False),
        ("Lt", ("8",), False, False),
        ("Lt", ("",), False, False),
        ("Resembles", ("8",), False, False),
    ],
)
def test_a_requirement_is_met_by_labels(operator: str, values: tuple[str, ...], there: bool, absent: bool) -> None:
    """An absent key has no value, not an empty one. Numbers are compared as such. An unknown operator is never met."""
    requirement = Requirement(key="gpus", operator=operator, values=values)
    assert (there, absent) == (requirement.met_by({"gpus": "8"}), requirement.met_by({"other": "8"}))


@pytest.mark.parametrize(
    ("term", "matched"),
    [
        pytest.param(Term((Requirement("zone", "In", ("a",)),)), True, id="label"),
        pytest.param(Term((), (Requirement("metadata.name", "In", ("gpu-0",)),)), True, id="name"),
        pytest.param(
            Term((Requirement("zone", "In", ("a",)),), (Requirement("metadata.name", "In", ("gpu-1",)),)),
            False,
            id="label-but-not-name",
        ),
        pytest.param(Term(), False, id="without-a-requirement"),
    ],
)
def test_a_term_matches_a_node(term: Term, matched: bool) -> None:
    """All its requirements must be met. A term without one matches no node."""
    assert matched is term.matches("gpu-0", {"zone": "a"})
