"""YAML is read strictly, and written so that every reader takes it the same way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from bundler.documents import InputError, at, parse, read, to_yaml

if TYPE_CHECKING:
    from pathlib import Path

_TRAPS = (
    "1e3 0755 1_000 0x1F 0b1 off y No NULL ~ 1:30 2026-11-21 .inf .5 5. +1 = << -a 580.10 v26.7.0 # ' !t &a *a a:b @"
)
_TEXTS = st.text(st.characters(codec="utf-8"), max_size=20) | st.sampled_from(
    [
        *_TRAPS.split(),
        "",
        "- a",
        "a: b",
        "a #b",
        '"',
        "\\",
        "\n",
        "a\n",
        "\na",
        "\ta",
        " a ",
        "{{ a }}",
        "\x85",
        "\ufeff",
        "---",
    ]
)
_SCALARS = st.none() | st.booleans() | st.integers(-(10**17), 10**17) | st.floats(-1e9, 1e9) | _TEXTS
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3), max_leaves=12
)


@given(st.dictionaries(_TEXTS, _VALUES, max_size=4))
def test_what_is_written_reads_the_same(value: dict[str, Any]) -> None:
    """Our own strict reader, and PyYAML with YAML 1.1's ideas, both read back what was written."""
    text = to_yaml(value, "a comment")
    assert value == parse(text, "f")
    assert value == yaml.safe_load(text)


_MERGES = "a0: &a0 {x: 1}\n" + "\n".join(
    f"a{level}: &a{level} {{<<: [{', '.join([f'*a{level - 1}'] * 9)}]}}" for level in range(1, 9)
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("v: 26.7.0", "26.7.0", id="version"),
        pytest.param("v: 1e3", 1000.0, id="exponent-as-Go-reads-it"),
        pytest.param("v: 1e+06", 1e6, id="exponent-as-Go-writes-it"),
        pytest.param("v: .5", 0.5, id="fraction"),
        pytest.param("v: -7", -7, id="integer"),
        pytest.param("v: 1:30", "1:30", id="no-sexagesimal"),
        pytest.param("v: 2026-11-21", "2026-11-21", id="no-date"),
        pytest.param("v: on", True, id="boolean-of-1.1"),
        pytest.param("v: ~", None, id="null"),
        pytest.param("v:", None, id="nothing"),
        pytest.param("v: '1'", "1", id="quoted"),
        pytest.param("v: !!str 1", "1", id="tagged-as-text"),
        pytest.param("v: |\n  a\n  b\n", "a\nb\n", id="block"),
        pytest.param("a: &x {b: 1, c: 2}\nv: {<<: *x, c: 3}", {"b": 1, "c": 3}, id="merge"),
        pytest.param("v: {<<: [{a: 1}, {a: 2, b: 2}]}", {"a": 1, "b": 2}, id="merge-of-several"),
        pytest.param("p: {x: &x {<<: &a {k: 1}, k: 2}}\nv: {<<: *x}", {"k": 2}, id="merge-of-a-merge"),
        pytest.param(_MERGES + "\nv: {<<: *a8}", {"x": 1}, id="billion-merges"),
        pytest.param("v: =", "=", id="equals-sign"),
        pytest.param("v: <<", "<<", id="merge-sign-as-a-value"),
        pytest.param("v: 9223372036854775808", 9223372036854775808.0, id="beyond-64-bits"),
        pytest.param('{"v": 9223372036854775808}', 9223372036854775808.0, id="beyond-64-bits-in-json"),
        pytest.param('{"v": NaN}', "NaN", id="a-word-that-json-has-not"),
        pytest.param("v: 0644", 420, id="mode-as-Go-reads-it"),
        pytest.param('{"v": [true, null, "\\u00e9"]}', [True, None, "é"], id="json"),
        pytest.param('{\n\t"v": {\n\t\t"w": 1\n\t}\n}', {"w": 1}, id="json-indented-by-tabs"),
        pytest.param('{"v": "\\ud83d\\ude00"}', "\U0001f600", id="json-with-a-pair"),
        pytest.param("\ufeffv: 1", 1, id="byte-order-mark"),
    ],
)
def test_read(tmp_path: Path, text: str, expected: object) -> None:
    """Values are what Helm takes them for."""
    file = tmp_path / "f.yaml"
    file.write_text(text)
    assert expected == read(file)["v"]


@pytest.mark.parametrize("text", ["", "---\n", "null\n", "# nothing\n"])
def test_empty(text: str) -> None:
    """An empty document is no values, as for Helm."""
    assert {} == parse(text, "f")


_BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "\n".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, 9)
)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("a: 1\na: 2", "the key 'a' is there twice (line 2, column 1)", id="duplicate-key"),
        pytest.param('{"a": 1, "a":\t2}', "f: it cannot be read", id="duplicate-key-of-json"),
        pytest.param('{"a": "\\ud800"}', "f: a: half a character", id="surrogate-of-json"),
        pytest.param(
            "a: {b: {c: 1, c: 2}}", "the key 'c' is there twice (line 1, column 15)", id="duplicate-key-below"
        ),
        pytest.param("a:\n  - {1: 2}", "a key is no text: quote it (line 2, column 6)", id="number-as-key"),
        pytest.param("no: 1", "a key is no text", id="boolean-as-key"),
        pytest.param("? [a]\n: 1", "a key is no text", id="list-as-key"),
        pytest.param("a: 0o10", "f: it cannot be read: 0o10 is read differently", id="octal"),
        pytest.param("a: 0x1F", "is read differently", id="hexadecimal"),
        pytest.param("a: 1_000", "is read differently", id="separator"),
        pytest.param("a: .nan", "is read differently", id="not-a-number"),
        pytest.param("a: 1e999", "f: a: it is too large a number", id="infinite"),
        pytest.param(
            "a: !secret x", "could not determine a constructor for the tag '!secret' (line 1, column 4)", id="tag"
        ),
        pytest.param("a: !!timestamp x", "could not determine a constructor", id="tag-of-yaml"),
        pytest.param("a: !!set {b}", "could not determine a constructor", id="tag-of-a-mapping"),
        pytest.param(
            "a: !!python/object/apply:os.system [id]",
            "could not determine a constructor",
            id="tag-of-python",
        ),
        pytest.param('a: "\\ud800"', "f: a: half a character", id="surrogate"),
        pytest.param("<<: 1", "expected a mapping or list of mappings for merging", id="merge-of-a-number"),
        pytest.param("{<<: {a: 1}, <<: {b: 2}}", "the key '<<' is there twice", id="merges-twice"),
        pytest.param("a: !!int x", "f: a tag does not fit its value", id="tag-of-a-number"),
        pytest.param("a: !!bool x", "f: a tag does not fit its value", id="tag-of-a-boolean"),
        pytest.param("a: !!int ''", "f: a tag does not fit its value", id="tag-of-nothing"),
        pytest.param("a: &x [*x]", "it has no end", id="part-of-itself"),
        pytest.param("a: &x {b: *x}", "it has no end", id="mapping-in-itself"),
        pytest.param(_BOMB, "it has no end", id="billion-laughs"),
        pytest.param("[" * 1000, "f: it nests too deeply", id="brackets"),
        pytest.param(
            "a: b: c",
            "f: it cannot be read: mapping values are not allowed here (line 1, column 5)",
            id="syntax",
        ),
        pytest.param("a: *x", "undefined alias", id="alias"),
        pytest.param("a: \x01", "f: it cannot be read", id="control-character"),
        pytest.param("a: 1\n---\nb: 2", "another document", id="two-documents"),
        pytest.param("- a", "f: it holds a list, not a mapping", id="list"),
        pytest.param("7", "f: it holds a number, not a mapping", id="number"),
    ],
)
def test_refused(text: str, complaint: str) -> None:
    """What readers take differently, and what has no end, is refused with its place."""
    with pytest.raises(InputError) as caught:
        parse(text, "f")
    assert complaint in str(caught.value)
    assert len(str(caught.value)) < 400


def test_no_text(tmp_path: Path) -> None:
    """Bytes that are no UTF-8, and files that cannot be read, are named."""
    file = tmp_path / "f.yaml"
    file.write_bytes(b"a: \xff")
    with pytest.raises(InputError, match="no UTF-8"):
        read(file)
    with pytest.raises(InputError, match="cannot be read"):
        read(tmp_path / "nowhere.yaml")
    with pytest.raises(InputError, match="cannot be read"):
        read(tmp_path)


def test_place() -> None:
    """Places are written as people write them."""
    assert "a[1].b-c['d.e/f']" == at(at(at(at("a", 1), "b-c"), "d.e/f"), "x").removesuffix(".x")
