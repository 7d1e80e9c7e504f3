"""The summary: which figures, of whom, and how they are written."""

from scheduling.simulation.summary import QueueSeconds

from .builder import HOUR, summary

POOLS = "pools: [{name: p, nodes: [{name: n, gpus: 2}]}, {name: q, nodes: [{name: m, gpus: 2}, {name: down, gpus: 8, ready: false}]}]"  # noqa: E501 - a file stands on one line
TEAMS = "teams: [{name: top, reservations: {p: 1}}, {name: a, parent: top}, {name: b, parent: top}]"
ROWS = """\
name: x, team: a, pool: p, duration: 30m, submitted: 0s
name: y, team: b, pool: q, gpus: 2, duration: 15m, submitted: 30m
name: z, team: b, pool: p, priority: 100, submitted: 30m"""


def test_utilisation_is_of_the_pools_own_capacity_else_of_all() -> None:
    found = summary(ROWS, HOUR, pools=POOLS, teams=TEAMS)
    assert [found.pools[name].utilisation for name in ("p", "q")] == [0.5, 0.25]
    assert found.everything.utilisation == 0.375
    assert found.classes["reserved"].utilisation == 0.125


def test_a_teams_figures_include_those_below_it() -> None:
    found = summary(ROWS, HOUR, pools=POOLS, teams=TEAMS)
    assert [found.teams[name].submitted for name in ("top", "a", "b")] == [3, 1, 2]
    assert found.teams["top"].finished == found.everything.finished == 2


def test_the_makespan_is_from_the_first_submission_to_the_last_end() -> None:
    found = summary(ROWS, HOUR, pools=POOLS, teams=TEAMS)
    assert found.everything.makespan_seconds == 45 * 60
    assert found.pools["q"].makespan_seconds == 15 * 60
    assert found.classes["reserved"].makespan_seconds == 0


def test_percentiles_are_by_nearest_rank() -> None:
    found = QueueSeconds.of([second * 1000 for second in range(1, 21)])
    assert (found.mean, found.p50, found.p95, found.max) == (10.5, 10, 19, 20)
    assert QueueSeconds.of([]) == QueueSeconds(0, 0, 0, 0)
    assert QueueSeconds.of([7]).p50 == 0.007


def test_the_object_has_the_same_keys_everywhere() -> None:
    found = summary(ROWS, HOUR, pools=POOLS, teams=TEAMS).as_object()
    keys = {
        "submitted", "started", "finished", "held_gpus_end", "utilisation", "queue_seconds", "preemptions",
        "lost_gpu_hours", "makespan_seconds",
    }  # fmt: skip
    assert found.keys() == keys | {"pools", "teams", "classes"}
    for kind in ("pools", "teams", "classes"):
        named = found[kind]
        assert isinstance(named, dict)
        assert all(isinstance(each, dict) and each.keys() == keys for each in named.values())


def test_the_section_has_a_row_for_each() -> None:
    heads, rows = summary(ROWS, HOUR, pools=POOLS, teams=TEAMS).section()
    assert [row[0] for row in rows] == [
        "everything", "pool p", "pool q", "team a", "team b", "team top", "class elastic", "class reserved",
    ]  # fmt: skip
    assert {len(row) for row in rows} == {len(heads)}


def test_an_organisation_without_gpus_has_a_summary() -> None:
    found = summary("name: x, team: a", HOUR, pools="pools: []", teams="teams: [{name: a}]")
    assert (found.everything.submitted, found.everything.utilisation, found.pools) == (1, 0.0, {})
