"""The plan as a table for people."""

from scheduling.scenario.table import as_table

from .builder import loaded
from .plans import PLAN, scenario

WHOLE = """\
Plan of 2026-01-01T00:00:00Z

POOL  CAPACITY  IN USE  FREE  FRAGMENTATION
main        12    7.25  4.75          33.3%  oversubscribed

TEAM   POOL  GUARANTEE  CEILING  IN USE  RESERVED  DEMAND  ENTITLEMENT
acme   main          8      9.5    7.25      4.25   11.25            8
  lab  main          3     none    7.25      4.25    7.25        0.333

WORKLOAD  TEAM  ACTION   STATUS     GPUS  POOL  NODES   WHY
comes     lab   start    queued        4  main  n1, n2  Preempts goes, shrinks. Waits for 2 victims.
goes      acme  preempt  preempted        main          Preempted by comes.
grows     lab   grow     running       2  main  n0, n2
held      acme  wait     pending                        It is held.
runs      lab   keep     running    0.25  main  n0
shrinks   lab   shrink   running       1  main  n0      Gave up a pod.
waits     acme  wait     pending          main          Number 1 in the queue. \
Starts 2026-01-01T01:00:00Z to 2026-01-01T02:00:00Z. Asks for 4 GPUs, 0.5 are free.
"""


def _table(width: int | None = None, *, colour: bool = False) -> str:
    found = scenario()
    return as_table(found.snapshot, found.now, PLAN, width=width, colour=colour)


def test_columns_are_aligned_and_children_stand_below_their_parent() -> None:
    assert _table() == WHOLE


def test_lines_are_cut_at_the_width_of_the_screen() -> None:
    lines = _table(width=40).splitlines()
    assert max(map(len, lines)) == 40
    assert lines[10] == "comes     lab   start    queued        …"
    assert lines[3] == "main        12    7.25  4.75          3…"


def test_colour_changes_no_character() -> None:
    coloured = _table(width=60, colour=True)
    assert "\x1b[31mpreempt\x1b[0m" in coloured
    assert "\x1b[32mstart\x1b[0m" in coloured
    for code in ("31", "32", "33", "0"):
        coloured = coloured.replace(f"\x1b[{code}m", "")
    assert coloured == _table(width=60)


def test_colour_does_not_outlast_a_line_that_is_cut_inside_it() -> None:
    for line in _table(width=18, colour=True).splitlines():
        assert line.count("\x1b[") in (0, 2)


def test_wide_letters_take_two_columns() -> None:
    teams = "teams: [{name: 研究}, {name: ab}]\n"
    pools = "pools: [{name: main, nodes: [{name: n, gpus: 1}]}]\n"
    found = loaded('name: x, team: "研究"\nname: y, team: ab', teams=teams, pools=pools)
    from scheduling.engine import Keep, Plan

    plan = Plan(keeps=(Keep("x", "main", (), None), Keep("y", "main", (), None)))
    lines = as_table(found.snapshot, found.now, plan, width=None, colour=False).splitlines()
    assert lines[-2:] == [
        "x         研究  keep    pending        main",
        "y         ab    keep    pending        main",
    ]
