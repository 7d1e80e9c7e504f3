"""`chamber replay`: what it says, and with which exit status."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import CliRunner, Result

from chamber.cli import main
from chamber.cli.status import Exit
from chamber.errors import NotVisible, Refusal
from chamber.serving import start
from scheduling.checker import Violation
from scheduling.cycle import replay as replaying
from scheduling.cycle.replay import Replay

SAME: dict[str, Any] = {
    "cycle": 12,
    "began_at": datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC),
    "engine_then": "aaaaaaaaaaaa",
    "engine_now": "aaaaaaaaaaaa",
    "error_then": "",
    "error_now": "",
    "whole": True,
    "same": True,
    "differences": (),
    "decisions": {"starts": 1, "preemptions": 2, "waits": 0},
}
Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs the command, with this replay found or refused."""

    def run(*words: str, error: Exception | None = None, **values: Any) -> Result:
        monkeypatch.setattr(start, "load", Mock())
        found = Mock(side_effect=error, return_value=Replay(**{**SAME, **values}))
        monkeypatch.setattr(replaying, "replay", found)
        return CliRunner().invoke(main, ["replay", *words])

    return run


def test_the_same_plan_is_said_and_is_status_0(run: Run) -> None:
    result = run("12")

    assert result.exit_code == 0
    assert result.stdout == (
        "Cycle 12 of 2026-05-04 03:02:01 UTC: the plan is the same, byte for byte (1 start, 2 preemptions).\n"
    )


def test_another_plan_is_status_1_with_the_first_differences(run: Run) -> None:
    result = run("12", same=False, differences=tuple(f"Difference {n}." for n in range(25)))

    assert result.exit_code == 1
    assert "the plan is another one.\n  Difference 0.\n" in result.stdout
    assert "Difference 19." in result.stdout
    assert "Difference 20." not in result.stdout
    assert "and 5 more" in result.stdout


def test_another_engine_is_named(run: Run) -> None:
    assert "decided then: bbb, this one is aaaaaaaaaaaa" in run("12", engine_then="bbb").stdout


def test_a_broken_rule_is_status_1_though_the_plan_is_the_same(run: Run) -> None:
    broken = Mock(spec=Violation, rule="gang-cut", rows=("workload a",), message="A has 1 of 2 pods.")
    result = run("12", "--verify", violations=(broken,))

    assert result.exit_code == 1
    assert "The checker finds 1 broken rule.\n  gang-cut: A has 1 of 2 pods." in result.stdout
    assert "The checker finds no broken rules." in run("12", "--verify", violations=()).stdout


def test_an_engine_that_fails_is_said(run: Run) -> None:
    assert "the engine fails on it as it did then" in run("12", error_now="E()", error_then="E()").stdout
    assert "the engine fails on it.\n" in run("12", same=False, error_now="E()").stdout


def test_programs_get_everything(run: Run) -> None:
    told = json.loads(run("12", "--json", same=False, whole=False, differences=("Other.",)).stdout)

    assert (told["cycle"], told["same"], told["differences"]) == (12, False, ["Other."])
    assert told["engine"] == {"then": "aaaaaaaaaaaa", "now": "aaaaaaaaaaaa"}
    assert (told["compared"], told["violations"]) == ("what was stored", None)


@pytest.mark.parametrize(
    ("error", "status"), [(NotVisible("There is no cycle 9."), 3), (Refusal("It was not kept."), 6)]
)
def test_what_cannot_be_replayed_is_a_sentence_and_a_status(run: Run, error: Refusal, status: int) -> None:
    result = run("9", error=error)

    assert (result.exit_code, result.stdout, result.stderr) == (status, "", f"{error.message}\n")


@pytest.mark.parametrize("word", ["", "-1", "x", "1.5", "9" * 19])
def test_what_is_no_number_is_a_mistake_of_usage(run: Run, word: str) -> None:
    result = run("--", word)

    assert result.exit_code == 2
    assert "it must be the number of a cycle" in result.stderr


def test_settings_that_cannot_be_used_are_said(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("1")
    refused = start.CannotStart("CHAMBER_DATABASE is no URL.", Exit.USAGE)
    monkeypatch.setattr(start, "load", Mock(side_effect=refused))
    result = CliRunner().invoke(main, ["replay", "1"])

    assert (result.exit_code, result.stderr) == (2, "CHAMBER_DATABASE is no URL.\n")
