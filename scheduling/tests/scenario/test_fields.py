"""Typed values of one mapping: bounds, defaults and sentences."""

from enum import StrEnum

import pytest

from scheduling.scenario.document import Format, ScenarioError, parse
from scheduling.scenario.fields import TEN_YEARS_MS, Fields, duration_of, shorten


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


def _fields(value: str) -> Fields:
    return Fields(parse(f"first: 1\nkey: {value}\n".encode(), Format.YAML), "it", {"first", "key", "other"})


def _refused(error: pytest.ExceptionInfo[ScenarioError]) -> str:
    assert error.value.line == 2
    return error.value.message


def test_an_unknown_key_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(ScenarioError) as error:
        Fields(parse(b"a: 1\nc: 2\n", Format.YAML), "it", {"b", "a"})
    assert _refused(error) == 'it has the unknown key "c"; allowed are a, b'


@pytest.mark.parametrize("value", ["1", "[1]"])
def test_what_is_no_mapping_is_refused(value: str) -> None:
    with pytest.raises(ScenarioError) as error:
        _fields(value).mapping("key")
    assert _refused(error) == f"it: key is {value}; allowed is a mapping of keys"


@pytest.mark.parametrize("value", ["null", "~", ""])
def test_null_is_the_default(value: str) -> None:
    fields = _fields(value)
    assert not fields.has("key")
    assert fields.names("key")
    assert fields.integer("key", 7, 0, 9) == 7
    assert fields.milli("key", 7, 0, 9) == 7
    assert fields.number("key", 0.5, 0, 9) == 0.5
    assert fields.boolean("key", default=True) is True
    assert fields.choice("key", Colour, Colour.BLUE) is Colour.BLUE
    assert (fields.text("key"), fields.texts("key"), fields.duration("key"), fields.past("key")) == (
        None,
        (),
        None,
        None,
    )


@pytest.mark.parametrize(("value", "number"), [("0", 0), ("9", 9), ("+3", 3), ("2.0", 2), ("1e0", 1)])
def test_whole_numbers_within_bounds_are_taken(value: str, number: int) -> None:
    assert _fields(value).integer("key", 5, 0, 9) == number


@pytest.mark.parametrize(
    "value",
    [
        "-1",
        "10",
        "2.5",
        "two",
        '"2"',
        "010",
        "0x1",
        "1_0",
        ".nan",
        ".inf",
        "1e999",
        "true",
        "9" * 50,
        "[1]",
        "{}",
    ],
)
def test_what_is_no_whole_number_within_bounds_is_refused(value: str) -> None:
    with pytest.raises(ScenarioError) as error:
        _fields(value).integer("key", 5, 0, 9)
    assert _refused(error).endswith("; allowed are whole numbers from 0 to 9")


@pytest.mark.parametrize(("value", "milli"), [("0.001", 1), ("0.25", 250), ("48", 48_000), ("1.5e1", 15_000)])
def test_a_thousandth_is_exact(value: str, milli: int) -> None:
    assert _fields(value).optional_milli("key", 0, 100) == milli


@pytest.mark.parametrize("value", ["0.0001", "-0.001", "100.001", "NaN", "many"])
def test_less_than_a_thousandth_is_refused(value: str) -> None:
    with pytest.raises(ScenarioError) as error:
        _fields(value).optional_milli("key", 0, 100)
    assert _refused(error) == f"it: key is {value}; allowed are numbers from 0 to 100, exact to a thousandth"


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        ("0", 0),
        ("0s", 0),
        ("30s", 30_000),
        ("1h30m", 5_400_000),
        ("7d", 604_800_000),
        ("1.5h", 5_400_000),
        ("5ms", 5),
        ("1w", 604_800_000),
    ],
)
def test_durations_have_units(value: str, ms: int) -> None:
    assert _fields(value).duration("key") == ms


@pytest.mark.parametrize(
    "value", ["30", "soon", "1 h", "h", "1y", "--1h", "1h-1m", "[1h]", "9999999999999999999h"]
)
def test_a_duration_without_a_unit_is_refused(value: str) -> None:
    with pytest.raises(ScenarioError) as error:
        _fields(value).duration("key")
    assert _refused(error).endswith('; allowed is a number with its unit, such as "30s", "10m", "2h" or "7d"')


@pytest.mark.parametrize("value", ["-1s", f"{TEN_YEARS_MS + 1}ms", "999999999999d"])
def test_a_duration_out_of_bounds_is_refused(value: str) -> None:
    with pytest.raises(ScenarioError) as error:
        _fields(value).duration("key")
    assert _refused(error) == f"it: key is {value}; allowed are durations from 0s to ten years"


def test_times_lie_within_the_last_ten_years() -> None:
    assert _fields("-10m").past("key") == -600_000
    assert _fields(f"-{TEN_YEARS_MS}ms").past("key") == -TEN_YEARS_MS
    for value in ("1s", f"-{TEN_YEARS_MS + 1}ms"):
        with pytest.raises(ScenarioError) as error:
            _fields(value).past("key")
        assert _refused(error) == f"it: key is {value}; allowed are times from ten years ago to now"


@pytest.mark.parametrize(("value", "truth"), [("true", True), ("False", False)])
def test_booleans_are_true_and_false(value: str, truth: bool) -> None:
    assert _fields(value).boolean("key", default=not truth) is truth


@pytest.mark.parametrize("value", ["yes", "on", "1", '"true"', "[]"])
def test_nothing_else_is_a_boolean(value: str) -> None:
    with pytest.raises(ScenarioError) as error:
        _fields(value).boolean("key", default=True)
    assert _refused(error) == f"it: key is {value}; allowed are true and false"


def test_a_choice_names_all_choices() -> None:
    assert _fields("red").choice("key", Colour, Colour.BLUE) is Colour.RED
    with pytest.raises(ScenarioError) as error:
        _fields("green").choice("key", Colour, Colour.BLUE)
    assert _refused(error) == "it: key is green; allowed are red, blue"


@pytest.mark.parametrize(
    ("value", "name"), [("n1", "n1"), ("007", "007"), ("true", "true"), ('"null"', "null")]
)
def test_names_stay_as_they_are_written(value: str, name: str) -> None:
    assert _fields(value).text("key") == name


@pytest.mark.parametrize("value", ['""', '"a\\nb"', '"\\e[31m"', '"' + "x" * 201 + '"', "[a]", "{a: 1}"])
def test_what_cannot_be_printed_is_no_name(value: str) -> None:
    with pytest.raises(ScenarioError) as error:
        _fields(value).text("key")
    assert "; allowed " in _refused(error)


def test_a_list_of_names_must_be_a_list_of_texts() -> None:
    assert _fields("[a, 1]").texts("key") == ("a", "1")
    with pytest.raises(ScenarioError) as error:
        _fields("a").texts("key")
    assert _refused(error) == "it: key is a; allowed is a list"
    with pytest.raises(ScenarioError) as error:
        _fields("[a, null]").texts("key")
    assert _refused(error) == "it: key is null; allowed is text"


def test_long_and_strange_text_is_shown_short_and_escaped() -> None:
    assert shorten("x" * 61) == f'"{"x" * 60}..."'
    assert shorten("a\x1b[31m") == '"a\\x1b[31m"'


def test_a_moment_may_lie_ahead() -> None:
    assert [_fields(value).moment("key") for value in ("90s", "-1h30m", "null")] == [90_000, -5_400_000, None]
    for value in (f"{TEN_YEARS_MS + 1}ms", f"-{TEN_YEARS_MS + 1}ms"):
        with pytest.raises(ScenarioError) as error:
            _fields(value).moment("key")
        assert _refused(error).endswith("allowed are times from ten years ago to ten years ahead")


def test_a_text_that_is_no_duration_is_none() -> None:
    assert [duration_of(text) for text in ("1.5s", "0", "", "s", "1", "1 h", "1e3s")] == [
        1500,
        0,
        *[None] * 5,
    ]
