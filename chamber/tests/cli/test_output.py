"""The forms of output: tables for people, the rest as it is for programs."""

import json
import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from chamber.cli.output import Column, OutputFormat, Row, ago, duration, show, show_one, text

COLUMNS = [
    Column("Name", lambda row: row["slug"]),
    Column("GPUs", lambda row: row["gpus"], number=True),
    Column("Pool", lambda row: row["pool"], wide=True),
]
ROWS = [{"slug": "bert", "gpus": 0.25, "pool": None}, {"slug": "a, b", "gpus": 16, "pool": "main"}]


def shown(capsys: pytest.CaptureFixture[str], form: OutputFormat, rows: Iterable[Row] = ROWS) -> str:
    show(rows, form, COLUMNS, empty="None.")
    return capsys.readouterr().out


def test_a_table_is_aligned_and_without_colour_where_nobody_watches(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert shown(capsys, OutputFormat.TABLE) == "NAME  GPUS\nbert  0.25\na, b    16\n"


def test_wide_has_all_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, OutputFormat.WIDE) == "NAME  GPUS  POOL\nbert  0.25\na, b    16  main\n"


def test_csv_quotes_and_has_all_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, OutputFormat.CSV) == 'Name,GPUs,Pool\nbert,0.25,\n"a, b",16,main\n'


def test_csv_has_no_formulas_of_those_who_choose_names_and_numbers_as_they_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [{"slug": '=HYPERLINK("x")', "gpus": -1, "pool": "@SUM(A1)"}]
    shown_cells = shown(capsys, OutputFormat.CSV, rows).splitlines()[1]
    assert shown_cells == '"\'=HYPERLINK(""x"")",-1,\'@SUM(A1)'


def test_names_are_one_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, OutputFormat.NAME) == "bert\na, b\n"


def test_json_and_yaml_are_what_the_api_gave(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(shown(capsys, OutputFormat.JSON)) == ROWS
    assert yaml.safe_load(shown(capsys, OutputFormat.YAML)) == ROWS


def test_without_rows_a_table_says_so_on_stderr_and_json_is_an_empty_list(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show([], OutputFormat.TABLE, COLUMNS, empty="None.")
    assert capsys.readouterr() == ("", "None.\n")
    assert json.loads(shown(capsys, OutputFormat.JSON, [])) == []


def test_one_thing_is_a_line_for_each_fact_that_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    show_one(ROWS[0], OutputFormat.WIDE, COLUMNS)
    assert capsys.readouterr().out == "Name  bert\nGPUs  0.25\n"


def test_a_terminal_gets_colour_unless_it_asks_for_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = [Column("Name", lambda row: f"[b]{row['slug']}"), Column("Status", lambda row: row["status"])]
    rows = [{"slug": "bert", "status": "Running"}]
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show(rows, OutputFormat.TABLE, columns)
    coloured = capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    show(rows, OutputFormat.TABLE, columns)
    plain = capsys.readouterr().out

    assert "\x1b[32mRunning" in coloured
    assert "\x1b[3" not in plain
    assert "[b]bert" in plain


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (90, "1 min 30 s"),
        (3600, "1 h"),
        (12_000, "3 h 20 min"),
        (86_400, "1 d"),
        (190_000, "2 d 4 h"),
    ],
)
def test_durations_are_in_their_largest_units(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_times_are_told_from_now() -> None:
    now = datetime(2030, 1, 1, 12, tzinfo=UTC)
    assert ago((now - timedelta(minutes=5)).isoformat(), now) == "5 min ago"
    assert ago("2030-01-01T14:00:00Z", now) == "2 h from now"
    assert ago(None, now) == ""


@pytest.mark.parametrize(
    ("value", "words"), [(None, ""), (True, "yes"), (4.0, "4"), ([1, "b"], "1, b"), ("x", "x"), (0, "0")]
)
def test_values_are_shown_as_people_write_them(value: object, words: str) -> None:
    assert text(value) == words
