"""What one line of a file could ask for, and no machine could do: refused with its line before it is made."""

import pytest

from scheduling.scenario import document, expectations
from scheduling.scenario.document import Format

from .builder import loaded, refusal, text

NODES = 'pools: [{name: main, nodes: [{name: "n{i}", count: 1000000, gpus: 1024}]}]\n'


def test_gpus_are_limited_in_sum() -> None:
    assert str(refusal(text(pools=NODES))) == (
        'line 2: node "n{i}": gpus is 1024; that makes 1,024,000,000 in all: '
        "allowed are 10,000,000 on all nodes together"
    )


def test_placed_pods_are_limited_in_sum() -> None:
    rows = 'name: "x-{i}", count: 11, team: a, pods: 100000, gpu_milli: 1, status: running'
    assert str(refusal(text(rows))) == (
        'line 5: workload "x-{i}": that makes 1,100,000 placed pods; allowed are 1,000,000'
    )


def test_waiting_pods_are_not() -> None:
    assert len(loaded('name: "x-{i}", count: 11, team: a, pods: 100000').snapshot.workloads) == 11


def test_a_tree_is_a_thousand_levels_deep_at_most() -> None:
    rows = "".join(f"  - {{name: t{n}, parent: t{n - 1}}}\n" for n in range(1, 1001))
    error = refusal(text(teams=f"teams:\n  - {{name: t0}}\n{rows}"))
    assert (
        str(error)
        == 'line 1004: team "t1000": parent is t999; that is level 1,001 of the tree: allowed are 1,000'
    )
    deepest = rows[: rows.rindex("  - ")]
    assert len(loaded(teams=f"teams:\n  - {{name: a}}\n  - {{name: t0}}\n{deepest}").snapshot.teams) == 1001


def test_a_topology_has_sixteen_levels_at_most() -> None:
    levels = ", ".join(f"l{n}" for n in range(17))
    error = refusal(text(pools=f"pools: [{{name: main, topology: [{levels}]}}]\n"))
    assert "it has 17 levels: allowed are 16" in error.message


def test_names_with_numbers_are_limited_too() -> None:
    error = refusal(text(f'name: "{"{i}" * 60}", count: 100000, team: a'))
    assert error.message.endswith("with its numbers it would have more than 200 characters")


@pytest.mark.parametrize("form", Format)
def test_values_are_counted(form: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "MAX_VALUES", 100)
    assert "keys and values, which is the most allowed" in refusal(f"[{'1, ' * 200}1]", form).message


def test_patterns_are_limited_by_what_they_are_compared_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expectations, "MAX_COMPARISONS", 5)
    rows, expect = 'name: "x-{i}", count: 3, team: a', "expect: {workloads: {x-0: {}, 'x-*': {}%s}}\n"
    assert loaded(rows, expect=expect % "").expectations.workloads
    assert "has 2 patterns for 3 workloads" in refusal(text(rows, expect=expect % ", '*': {}")).message
