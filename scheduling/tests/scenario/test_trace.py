"""A trace in CSV: its rows are workloads, and what is wrong is refused with line and column."""

import gzip

import pytest

from scheduling.engine import GpuShare, Memory, Toleration, Topology
from scheduling.scenario import trace as traces
from scheduling.scenario.document import Format, ScenarioError
from scheduling.scenario.loader import NOW_MS, Course, Scenario, load
from scheduling.scenario.trace import unpacked

from .builder import text

POOLS = 'pools: [{name: main, topology: [rack], nodes: [{name: "n{i}", count: 2, gpus: 4, labels: {rack: r}}]}, {name: other}]\n'  # noqa: E501 - a file stands on one line


def traced(trace: str | bytes, workloads: str = "") -> Scenario:
    content = trace if isinstance(trace, bytes) else trace.encode()
    return load(text(workloads, pools=POOLS).encode(), Format.YAML, trace=content, future=True)


def refused(trace: str | bytes, workloads: str = "") -> str:
    with pytest.raises(ScenarioError) as caught:
        traced(trace, workloads)
    assert caught.value.in_trace
    return str(caught.value)


def test_rows_are_workloads_like_those_of_the_file() -> None:
    found = traced("name,team,gpus,submitted,duration\nx,a,0.5,-5m,1h\ny,a,2,90s,30m\n", "name: own, team: a")
    assert [each.id for each in found.snapshot.workloads] == ["own", "x"]
    assert [(each.id, each.request, each.submitted_at - NOW_MS) for each in found.arrivals] == [
        ("y", GpuShare(2000), 90_000)
    ]
    assert found.courses == {"x": Course(3_600_000, ()), "y": Course(1_800_000, ())}


def test_arrivals_are_in_the_order_of_their_times() -> None:
    found = traced("name,team,submitted\nx,a,9m\nz,a,5m\ny,a,5m\n")
    assert [each.id for each in found.arrivals] == ["y", "z", "x"]


def test_an_empty_cell_is_the_default() -> None:
    found = traced("name,team,gpus,gpu_memory_mib,priority\nx,a,,10,\n").snapshot.workloads[0]
    assert (found.request, found.priority) == (Memory(10), 50)


def test_lists_and_mappings_are_written_in_brackets() -> None:
    trace = 'name,team,pool,tolerations,topology,depends_on\nx,a,"[other, main]",[k=v],{required: rack},[y]\ny,a,,,,\n'
    found, _ = traced(trace).snapshot.workloads
    assert (found.pools, found.tolerations) == (("other", "main"), (Toleration("k", "v"),))
    assert found.topology == Topology(required="rack")


def test_a_row_may_stand_for_many_and_lie_somewhere() -> None:
    found = traced('name,team,count,status,nodes\n"x-{i}",a,2,running,[n1]\n').snapshot.workloads
    assert [each.placements[0].node for each in found] == ["n1", "n1"]


def test_empty_lines_and_quoted_line_ends_do_not_shift_the_count() -> None:
    assert refused('name,team\n\n"x",a\n\n"a\nb",a\n').startswith("line 5: a workload: name is a")
    assert refused('name,team,topology\n\nx,a,"{required:\n rack}"\ny,b,\n').startswith("line 5: workload")


@pytest.mark.parametrize(
    ("trace", "sentence"),
    [
        ("name,team\nx,a,1\n", "line 2: the row has 3 cells; allowed are 2, one for each column"),
        ("name\nx\n", "line 1: the trace has no column team; one is required"),
        ("", "line 1: the trace has no column name; one is required"),
        ("name,team,name\n", 'line 1: the column "name" is given twice; columns are unique'),
        ("name,team,gpus\nx,a,1\ny,a,1.25\n", 'line 3: workload "y": gpus is 1.25; the nearest are 1 and 2'),
        ("name,team,submitted\nx,a,11y\n", 'line 2: workload "x": submitted is 11y; allowed is a time'),
        ("name,team,submitted\nx,a,5000d\n", 'line 2: workload "x": submitted is 5000d; allowed are times'),
        ("name,team,duration\nx,a,0s\n", 'line 2: workload "x": duration is 0s; allowed are durations'),
        ("name,team,status,submitted\nx,a,running,5m\n", 'line 2: workload "x": submitted is 5m; allowed'),
        ("name,team,pods\nx,a,nan\n", 'line 2: workload "x": pods is nan; allowed are whole numbers'),
        ("name,team\nx,b\n", 'line 2: workload "x": team names the unknown team "b"; known are a'),
        ("name,team\nx,a\nx,a\n", 'line 3: the workload "x" is given twice, first in line 2 of the trace'),
        ("name,team,depends_on\nx,a,[z]\n", 'line 2: workload "x": depends_on names the unknown workload "z"'),
        ("name,team,nodes\nx,a,[n1\n", 'line 2: nodes is "[n1": not YAML'),
        ("name,team,nodes\nx,a,[&a n1]\n", 'line 2: nodes is "[&a n1]": "a" is a YAML anchor'),
        ("name,team,status,gpus\nx,a,running,5\n", 'line 2: workload "x" is running and names no nodes'),
        ('name,team\n"x,a\n', "line 2: not CSV: unexpected end of data"),
        (b"name,team\n\xff,a\n", "line 2: byte 0xff is not UTF-8 text"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_with_its_line_and_column(trace: str | bytes, sentence: str) -> None:
    assert refused(trace).startswith(sentence)


def test_an_unknown_column_is_refused_with_those_that_are_known() -> None:
    assert refused("name,team,vc\n").startswith(
        'line 1: column 3 of the trace is "vc"; allowed are array, checkpointed,'
    )


def test_a_name_of_the_scenario_is_taken() -> None:
    assert refused("name,team\nx,a\n", "name: x, team: a").startswith(
        'line 2: the workload "x" is given twice, first in line 5 of the scenario'
    )


def test_a_packed_trace_is_unpacked() -> None:
    assert unpacked(gzip.compress(b"name,team\n", mtime=0), "jobs.csv.gz") == b"name,team\n"
    assert unpacked(b"name,team\n", "jobs.csv") == b"name,team\n"


@pytest.mark.parametrize(
    "content", [b"name,team\n", gzip.compress(b"name,team\n" * 100, mtime=0)[:-12], b"\x1f\x8b\x08\x00"]
)
def test_what_cannot_be_unpacked_is_refused(content: bytes) -> None:
    with pytest.raises(ScenarioError, match="cannot be unpacked") as caught:
        unpacked(content, "jobs.csv.GZ")
    assert caught.value.in_trace


def test_a_bomb_is_refused_before_it_is_unpacked_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "MAX_BYTES", 1000)
    with pytest.raises(ScenarioError, match="more than 1,000 bytes"):
        unpacked(gzip.compress(b"0" * 10_000_000, mtime=0), "jobs.csv.gz")
