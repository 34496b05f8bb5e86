"""YAML is read strictly, and written so that every reader takes it the same way."""

from __future__ import annotations

from pathlib import Path

import pytest

from bundler.documents import InputError, parse, read

_MERGES = "a0: &a0 {x: 1}\n" + "\n".join(
    f"a{level}: &a{level} {{<<: [{', '.join([f'*a{level - 1}'] * 9)}]}}" for level in range(1, 9)
)


READ = {
    "v:": None,
    "a: &x {b: 1, c: 2}\nv: {<<: *x, c: 3}": {"b": 1, "c": 3},
    "v: {<<: [{a: 1}, {a: 2, b: 2}]}": {"a": 1, "b": 2},
    "p: {x: &x {<<: &a {k: 1}, k: 2}}\nv: {<<: *x}": {"k": 2},
    _MERGES + "\nv: {<<: *a8}": {"x": 1},
    '{"v": [true, null, "\\u00e9"]}': [True, None, "é"],
    "\ufeffv: 1": 1,
}


@pytest.mark.parametrize(("text", "expected"), READ.items())
def test_read(tmp_path: Path, text: str, expected: object) -> None:
    """Merged mappings, JSON and a byte order mark are read as by Helm."""
    file = tmp_path / "f.yaml"
    file.write_text(text)
    assert expected == read(file)["v"]


@pytest.mark.parametrize("text", ["", "---\n", "null\n", "# nothing\n"])
def test_an_empty_document_has_no_values(text: str) -> None:
    """As for Helm."""
    assert {} == parse(text, "f")


_BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "\n".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, 9)
)


REFUSED = {
    "a: 1\na: 2": "duplicate key 'a' (line 2, column 1)",
    "a:\n  - {1: 2}": "a key is not a text: quote it (line 2, column 6)",
    "a: .nan": "JSON cannot hold",
    "a: 1e999": "JSON cannot hold",
    'a: "\\ud800"': "JSON cannot hold",
    "a: !secret x": "could not determine a constructor for the tag '!secret' (line 1, column 4)",
    "a: !!python/object/apply:os.system [id]": "could not determine a constructor",
    "a: &x [*x]": "the document nests too deeply",
    _BOMB: "the document is too large",
    "a: " + "[" * 100 + "]" * 100: "the document nests too deeply",
    "a: b: c": "f: cannot read the document: mapping values are not allowed here (line 1, column 5)",
    "a: 1\n---\nb: 2": "another document",
    "- a": "f: the document: Expected `object`, got `array`",
}


@pytest.mark.parametrize(("text", "complaint"), REFUSED.items())
def test_refused(text: str, complaint: str) -> None:
    """Documents without an end, values that JSON cannot hold and duplicates are refused, with their place."""
    with pytest.raises(InputError) as caught:
        parse(text, "f")
    assert complaint in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("f.yaml", "not UTF-8"),
        ("nowhere.yaml", "cannot read the file"),
        ("", "cannot read the file"),
    ],
)
def test_no_text(name: str, complaint: str, tmp_path: Path) -> None:
    """Bytes that are no UTF-8, and files that cannot be read, are named."""
    (tmp_path / "f.yaml").write_bytes(b"a: \xff")
    with pytest.raises(InputError, match=complaint):
        read(tmp_path / name)
