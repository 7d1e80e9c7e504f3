"""Reading YAML and JSON into a tree with lines."""

import pytest

from scheduling.scenario import document
from scheduling.scenario.document import (
    DocumentMapping,
    Format,
    Scalar,
    ScenarioError,
    Sequence,
    Value,
    parse,
)

NESTED = "[" * 20 + "]" * 20


def _refusal(content: bytes, form: Format) -> ScenarioError:
    with pytest.raises(ScenarioError) as caught:
        parse(content, form)
    return caught.value


def _mapping(value: Value) -> DocumentMapping:
    assert isinstance(value, DocumentMapping)
    return value


@pytest.mark.parametrize(
    ("form", "content"),
    [
        (Format.YAML, "a: 1\nb:\n  - x\n  - {c: null}\n"),
        (Format.JSON, '{"a": 1,\n "b": [\n  "x",\n  {"c": null}]}'),
    ],
)
def test_values_keep_their_lines_and_their_spelling(form: Format, content: str) -> None:
    tree = _mapping(parse(content.encode(), form))
    items = tree.items["b"]
    assert tree.items["a"] == Scalar(1, "1", quoted=False)
    assert isinstance(items, Sequence)
    assert [item.line for item in items.items] == [3, 4]
    assert _mapping(items.items[1]).items["c"].is_null  # type: ignore[union-attr]
    assert tree.key_lines == {"a": 1, "b": 2}


def test_words_that_older_yaml_makes_booleans_stay_text() -> None:
    tree = _mapping(parse(b"on: no\nyes: off\n", Format.YAML))
    assert {key: value.text for key, value in tree.items.items()} == {"on": "no", "yes": "off"}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("written", "is_null"), [("null", True), ("~", True), ("", True), ('"null"', False), ('""', False)]
)
def test_only_unquoted_null_is_null(written: str, is_null: bool) -> None:
    value = _mapping(parse(f"a: {written}\n".encode(), Format.YAML)).items["a"]
    assert isinstance(value, Scalar)
    assert value.is_null is is_null


def test_a_byte_order_mark_is_no_content() -> None:
    assert _mapping(parse(b"\xef\xbb\xbfa: 1", Format.YAML)).key_lines == {"a": 1}


def test_json_escapes_and_tabs_are_read() -> None:
    tree = _mapping(parse(b'{\t"\\ud83d\\ude00\\"": "a\\/b"}', Format.JSON))
    assert tree.items == {'\N{GRINNING FACE}"': Scalar(1, "a/b", quoted=True)}


@pytest.mark.parametrize(
    ("content", "line", "sentence"),
    [
        (b"", None, "the file is empty; a mapping with version, pools, teams and workloads is expected"),
        (
            b"# nothing\n",
            None,
            "the file is empty; a mapping with version, pools, teams and workloads is expected",
        ),
        (b"a: 1\nb: 2\na: 3\n", 3, "the key 'a' is given twice, first in line 1"),
        (b"a: 1\nb: &x 2\n", 2, '"x" is a YAML anchor or alias; none are allowed'),
        (b"a: &x [1]\nb: *x\n", 1, '"x" is a YAML anchor or alias; none are allowed'),
        (b"a: 1\nb: *x\n", 2, '"x" is a YAML anchor or alias; none are allowed'),
        (b"a: 1\nb: !!int 2\n", 2, '"tag:yaml.org,2002:int" is a YAML tag; none are allowed'),
        (
            b"a: !!python/name:os.system\n",
            1,
            '"tag:yaml.org,2002:python/name:os.system" is a YAML tag; none are allowed',
        ),
        (b"a: !!map {}\n", 1, '"tag:yaml.org,2002:map" is a YAML tag; none are allowed'),
        (b"a: !!seq []\n", 1, '"tag:yaml.org,2002:seq" is a YAML tag; none are allowed'),
        (b"a: 1\n---\nb: 2\n", 3, "a second document begins here; one is allowed"),
        (b"a: 1\n[b]: 2\n", 2, "a list or a mapping stands where a key belongs; keys are text"),
        (b"a: 1\nb: \xff\n", 2, "byte 0xff is not UTF-8 text"),
        ("a: 1\n# \u2028b: 2\n".encode(), 2, "U+2028 ends a line for YAML only; none are allowed"),
        ("a: 1\nb: \x85c\n".encode(), 2, "U+0085 ends a line for YAML only; none are allowed"),
        (NESTED.encode(), 1, "nested deeper than 16 levels, which is the most allowed"),
    ],
)
def test_yaml_that_is_not_one_plain_document_is_refused(
    content: bytes, line: int | None, sentence: str
) -> None:
    error = _refusal(content, Format.YAML)
    assert (error.line, error.message) == (line, sentence)


@pytest.mark.parametrize(
    ("content", "line"),
    [(b"a: [1\nb: 2", 2), (b"a: 1\n\tb: 2", 2), (b"a: 1\nb: \x01", 2), (b"{", 2), (b"a: b: c", 1)],
)
def test_broken_yaml_is_refused_with_its_line(content: bytes, line: int) -> None:
    error = _refusal(content, Format.YAML)
    assert error.line == line
    assert error.message.startswith("not YAML: ")


@pytest.mark.parametrize(
    ("content", "line", "sentence"),
    [
        (b"", 1, "not JSON: Expecting value"),
        (b'{"a": 1,\n}', 2, "not JSON: Expecting property name enclosed in double quotes"),
        (b'{"a": 1}\n{}', 2, "not JSON: Extra data"),
        (b'{"a": NaN}', None, "NaN is not a number that JSON has"),
        (b'{"a": -Infinity}', None, "-Infinity is not a number that JSON has"),
        (b'{"a": 1,\n"a": 2}', 2, "the key 'a' is given twice, first in line 1"),
        (b'{"a":\n"\\ud800"}', 2, "'\\ud800' holds half a character (a lone surrogate)"),
        (NESTED.encode(), 1, "nested deeper than 16 levels, which is the most allowed"),
        (b"[" * 200_000, None, "nested deeper than 16 levels, which is the most allowed"),
    ],
)
def test_json_that_is_not_plain_is_refused(content: bytes, line: int | None, sentence: str) -> None:
    error = _refusal(content, Format.JSON)
    assert (error.line, error.message) == (line, sentence)


def test_a_json_number_of_any_length_is_only_text_here() -> None:
    digits = "9" * 10_000
    assert parse(digits.encode(), Format.JSON) == Scalar(1, digits, quoted=False)


def test_a_file_above_the_limit_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "MAX_BYTES", 4)
    assert parse(b"a: 1", Format.YAML)
    assert (
        _refusal(b"a: 12", Format.YAML).message == "the file has more than 4 bytes, which is the most allowed"
    )
