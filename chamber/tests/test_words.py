"""Counts whose noun agrees, and times that say their date where it is not today's."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from chamber.words import as_name, clock_time, count, plural, unfit_for_name

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("number", "told"), [(0, "0 pods"), (1, "1 pod"), (2, "2 pods"), (1200, "1,200 pods")]
)
def test_a_noun_agrees_with_its_number(number: int, told: str) -> None:
    assert count(number, "pod") == told


def test_what_no_s_makes_several_of() -> None:
    assert [count(number, "retry", "retries") for number in (1, 2)] == ["1 retry", "2 retries"]
    assert [plural(number, "is") for number in (1, 2)] == ["is", "are"]


@pytest.mark.parametrize(
    ("moment", "told"),
    [
        (NOON, "12:00:00 UTC"),
        (NOON - timedelta(days=1), "2025-12-31 12:00:00 UTC"),
        (NOON.astimezone(timezone(timedelta(hours=9))), "12:00:00 UTC"),
    ],
)
def test_a_time_says_its_date_where_it_is_not_todays(moment: datetime, told: str) -> None:
    assert clock_time(moment, NOON) == told


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nlp\u202eevil", "The name contains the character U+202E, which cannot be seen."),
        ("nlp\u200b", "The name contains the character U+200B, which cannot be seen."),
        ("a\x00", "The name contains the character U+0000, which cannot be seen."),
        ("a\ud800", "The name contains the character U+D800, which cannot be seen."),
        ("a\ufffd", "The name contains the character U+FFFD, which cannot be seen."),
        ("a \u0301b", "The name contains the mark U+0301 without a letter before it."),
        (
            "\U0001d41abc",
            "The name contains '\U0001d41a' (U+1D41A), which looks like 'a'. Write that instead.",
        ),
        ("\uff54eam", "The name contains '\uff54' (U+FF54), which looks like 't'. Write that instead."),
        ("\u217faria", "The name contains '\u217f' (U+217F), which looks like 'm'. Write that instead."),
        ("ada\u017f", "The name contains '\u017f' (U+017F), which looks like 's'. Write that instead."),
        ("\ufb01n", "The name contains '\ufb01' (U+FB01), which looks like 'fi'. Write that instead."),
        ("\u24dcaria", "The name contains '\u24dc' (U+24DC), which looks like 'm'. Write that instead."),
        ("\u1d50aria", "The name contains '\u1d50' (U+1D50), which looks like 'm'. Write that instead."),
        ("a\u2011b", "The name contains '\u2011' (U+2011), which looks like '\u2010'. Write that instead."),
        ("\ufe8d", "The name contains '\ufe8d' (U+FE8D), which looks like '\u0627'. Write that instead."),
        (
            "nl\u0440",
            "The name contains '\u0440' (U+0440) beside Latin letters, where it looks like the Latin 'p'. "
            "Use letters of one script.",
        ),
        (
            "Team \u0440\u043e\u0440",
            "The name contains '\u0440' (U+0440) beside Latin letters, where it looks like the Latin 'p'. "
            "Use letters of one script.",
        ),
    ],
)
def test_a_name_that_could_be_taken_for_another_is_told(name: str, told: str) -> None:
    assert unfit_for_name(name) == told


@pytest.mark.parametrize(
    "name",
    [
        "NLP & vision (2026)",
        "Jos\u00e9 Nu\u00f1ez",
        "\u03bcTransfer",
        "\u03b2-VAE",
        "R\u00b2 \u2460 1\u00aa Acme\u2122",
        "O\u00b4Brien",
        "\u0e19\u0e49\u0e33",
        "\u3131\u3134",
        "GPU-\u043a\u043b\u0430\u0441\u0442\u0435\u0440",
        "\u043a\u043e\u043c\u0430\u043d\u0434\u0430 \u0441 GPU",
        "\u0440\u043e\u0440",
        "\u673a\u5668\u5b66\u4e60",
        "team \U0001f680",
    ],
)
def test_a_name_of_any_script_is_taken(name: str) -> None:
    assert unfit_for_name(name) == ""


def test_a_name_is_stored_composed_and_with_single_spaces() -> None:
    assert as_name("  Jose\u0301 \n\t N. ") == "Jos\u00e9 N."
    assert as_name("\u00b5Transfer") == "\u03bcTransfer", "keyboards write the sign"


def test_the_numero_sign_that_russian_keyboards_write_is_taken() -> None:
    assert unfit_for_name("\u041a\u043e\u043c\u0430\u043d\u0434\u0430 \u21165") == ""
