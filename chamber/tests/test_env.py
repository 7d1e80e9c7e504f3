"""Settings from the environment: typed, and a bad value stops with one sentence."""

from collections.abc import Callable
from pathlib import Path

import pytest

from chamber import env


def test_a_secret_may_come_from_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("from a file\n")
    monkeypatch.setenv("X_KEY", "from the variable")
    monkeypatch.setenv("X_KEY_FILE", str(secret))
    assert env.text("X_KEY", "") == "from a file"


def test_a_secret_file_that_is_missing_stops_with_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("X_KEY_FILE", "/nowhere/secret")
    with pytest.raises(SystemExit, match="X_KEY_FILE is '/nowhere/secret'; allowed is a readable file"):
        env.text("X_KEY", "")


@pytest.mark.parametrize(("value", "expected"), [("1", True), ("On", True), ("no", False), ("", True)])
def test_a_flag_reads_the_usual_words(monkeypatch: pytest.MonkeyPatch, value: str, expected: bool) -> None:
    monkeypatch.setenv("X_FLAG", value)
    assert env.flag("X_FLAG", default=True) is expected


@pytest.mark.parametrize("value", ["maybe", "2", "tru"])
def test_a_flag_that_is_no_word_of_these_stops(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("X_FLAG", value)
    with pytest.raises(SystemExit, match=f"X_FLAG is '{value}'; allowed is 1, true"):
        env.flag("X_FLAG", default=True)


@pytest.mark.parametrize("value", ["0", "101", "ten", "1.5"])
def test_a_number_out_of_bounds_stops_and_names_them(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("X_NUMBER", value)
    with pytest.raises(SystemExit, match=f"X_NUMBER is '{value}'; allowed is a whole number from 1 to 100"):
        env.integer("X_NUMBER", 5, low=1, high=100)


def test_words_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("X_WORDS", " a, b,,c ")
    assert env.words("X_WORDS", "") == ["a", "b", "c"]


def test_a_number_that_need_not_be_given_is_none_or_within_its_bounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert env.integer_or_none("X_DAYS", low=2, high=10) is None
    monkeypatch.setenv("X_DAYS", " 3 ")
    assert env.integer_or_none("X_DAYS", low=2, high=10) == 3
    monkeypatch.setenv("X_DAYS", "1")
    with pytest.raises(SystemExit, match="X_DAYS is '1'; allowed is a whole number from 2 to 10"):
        env.integer_or_none("X_DAYS", low=2, high=10)


@pytest.mark.parametrize(
    ("read", "good", "bad"),
    [
        (
            env.hosts,
            "gpus.example.org, .example.org, web, my_host, 10.0.0.7, [2001:db8::7], GPUs.example.org, *",
            ["https://gpus.example.org", "gpus.example.org:8252", "gpus example org", "gpus.example.org/",
             "gpus.example.org.", "a..b", "::1", "[::1", "[gpus]", "*.example.org", "-a", "ä.example.org"],
        ),
        (
            env.origins,
            "https://gpus.example.org, https://*.example.org, http://10.0.0.7:8252, https://[2001:db8::7]:1",
            ["gpus.example.org", "https://gpus.example.org/", "https://gpus.example.org/path", "ftp://gpus.example.org",
             "https://", "https://a@gpus.example.org", "https://gpus.example.org:port", "HTTPS://g.example.org", "*"],
        ),
    ],
)  # fmt: skip
def test_what_could_never_be_met_stops(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[str], list[str]], good: str, bad: list[str]
) -> None:
    monkeypatch.setenv("X_NAMES", good)
    assert read("X_NAMES") == good.split(", ")
    for value in bad:
        monkeypatch.setenv("X_NAMES", f"good.example.org,{value}" if read is env.hosts else value)
        with pytest.raises(SystemExit, match=r"such as .*gpus\.example\.org.* separated by commas") as stop:
            read("X_NAMES")
        assert str(stop.value).startswith(f"The environment variable X_NAMES is {value!r}; allowed is ")
