"""Whatever stands in a file, it is read or refused: nothing but ScenarioError comes out."""

import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.scenario.document import Format, ScenarioError
from scheduling.scenario.loader import load

CASES = sorted((Path(__file__).parent / "cases").glob("*.yaml"))
WORD = re.compile(rb"[\w.\"-]+")
WORDS = (
    b"null -1 1e400 .nan 010 [] {} [[]] *a &a !!int '' -5m 99999999999999999999 0.1234 true {i} ? | running"
)
STRANGE = st.sampled_from([*WORDS.split(), b"\xff", b"\x00", b"\n- ", b"\xe2\x80\xa8", b"&b c"])


def _load(content: bytes, form: Format) -> None:
    with suppress(ScenarioError):
        load(content, form)


@given(st.binary(max_size=300), st.sampled_from(Format))
def test_any_bytes_are_read_or_refused(content: bytes, form: Format) -> None:
    _load(content, form)


@given(st.text(alphabet="{}[],:'\"&*!|>%@-# \n\tabc01.~", max_size=100), st.sampled_from(Format))
def test_any_punctuation_is_read_or_refused(content: str, form: Format) -> None:
    _load(content.encode(), form)


@settings(max_examples=300)
@given(st.sampled_from(CASES), st.integers(0, 10_000), STRANGE)
def test_any_word_of_a_case_may_be_replaced(case: Path, position: int, word: bytes) -> None:
    content = case.read_bytes()
    places = list(WORD.finditer(content))
    place = places[position % len(places)]
    _load(content[: place.start()] + word + content[place.end() :], Format.YAML)


@given(st.sampled_from(CASES), st.integers(0, 10_000), st.integers(0, 10_000))
def test_any_part_of_a_case_may_be_missing(case: Path, start: int, length: int) -> None:
    content = case.read_bytes()
    start %= len(content)
    _load(content[:start] + content[start + length % 40 :], Format.YAML)


@pytest.mark.parametrize("digits", [b"1" * 100_000, b"1e" + b"9" * 100_000, b"0." + b"1" * 100_000])
@pytest.mark.parametrize("key", [b"pods", b"gpus", b"submitted", b"cpu"])
def test_numbers_of_any_length_are_refused_quickly(key: bytes, digits: bytes) -> None:
    head = b'{"version": 1, "teams": [{"name": "a"}], "workloads": [{"name": "x", "team": "a", "'
    with pytest.raises(ScenarioError) as caught:
        load(head + key + b'": ' + digits + b"}]}", Format.JSON)
    assert len(caught.value.message) < 300
