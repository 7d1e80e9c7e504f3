"""Whatever a scenario and its trace say, they are refused with a sentence, or the engine and the clock cope with them.

Hypothesis draws organisations that are right but for a few values, keys or rows, then files whose bytes are damaged.
`CHAMBER_FUZZ_EXAMPLES=20000 python -m pytest scheduling/tests/scenario/test_fuzz.py` looks longer than the suite does.
"""

import copy
import gzip
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from scheduling.checker import check
from scheduling.engine import Snapshot, schedule
from scheduling.scenario.check import differences
from scheduling.scenario.document import Format, ScenarioError
from scheduling.scenario.loader import Scenario, load
from scheduling.scenario.output import as_object, as_text
from scheduling.scenario.trace import unpacked
from scheduling.simulation.clock import SimulationClock
from scheduling.simulation.summary import summary_of

EXAMPLES = int(os.environ.get("CHAMBER_FUZZ_EXAMPLES", "100"))
fuzzed = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

CASES = [path.read_bytes() for path in sorted((Path(__file__).parent / "cases").glob("*.yaml"))]
HOUR_MS = 3_600_000
MOST_ROWS = 300
"""Of what was let in, only small organisations are decided: large ones are a matter of time, not of truth."""

WRONG: list[Any] = [
    None, True, "", "on", "yes", "null", "x" * 300, "\x00", "\ud800", "{i}", "a,b", "=", ":", "-1", "1e400",
    -1, 0, 1, 0.1, 0.25, 1.25, 1e-9, 10**6, 10**7, 10**30, -(10**30), float("nan"), float("inf"), "010", "0x10",
    "5m", "-5m", "-0s", "1ms", "3653d", "-3654d", "9" * 15 + "w", "1h1h", "9" * 5000, [], [[]], ["a", "a"], {},
    {"": ""}, {"a": {"b": []}}, {"required": "node"}, "a", "w", "main", "n0", "pending", "running", "stopping",
]  # fmt: skip


def times(low: str, *others: str) -> st.SearchStrategy[str]:
    return st.sampled_from([low, *others])


NODES = st.fixed_dictionaries(
    {"gpus": st.integers(0, 8)},
    optional={
        "count": st.integers(0, 4), "gpu_type": st.sampled_from(["H100", "A100"]), "cpu": st.integers(0, 64),
        "gpu_memory_mib": st.sampled_from([10_000, 80_000]), "memory_mib": st.integers(0, 10_000),
        "labels": st.dictionaries(st.sampled_from(["rack", "zone"]), st.sampled_from("rs")),
        "partition": st.sampled_from(["x", None]), "ready": st.booleans(), "cordoned": st.booleans(),
        "taints": st.lists(st.sampled_from(["k=v:NoSchedule", "k", "j:NoExecute"]), max_size=2),
        "foreign": st.integers(0, 1), "cluster": st.sampled_from("cd"), "sharing": st.booleans(),
    },
)  # fmt: skip
POLICIES = st.fixed_dictionaries(
    {},
    optional={
        "queueing": st.sampled_from(["strict-fifo", "best-effort-fifo", "backfill"]),
        "elastic_preemption": st.sampled_from(["priority", "fair-share", "never"]),
        "placement": st.sampled_from(["binpack", "spread"]), "fairness": st.sampled_from(["entitlement", "usage"]),
        "usage_half_life": times("1h", "7d"), "min_runtime": times("0s", "5m"),
        "max_preemptions": st.sampled_from([None, 0, 2]), "default_time_limit": times("1h", "1ms"),
        "sharing": st.sampled_from(["fractions", "none"]),
    },
)  # fmt: skip
TEAMS = st.fixed_dictionaries(
    {},
    optional={
        "bursting_priority": st.integers(0, 11), "burst_limit": st.sampled_from([None, 0, 50]),
        "maximum": st.sampled_from([None, -1, 0, 6]), "reservations": st.just({"main": 4}),
        "maximums": st.just({"main": None}), "usage": st.just({"main": 1000}),
    },
)  # fmt: skip
WORKLOADS = st.fixed_dictionaries(
    {"team": st.sampled_from("ab")},
    optional={
        "count": st.integers(0, 5), "pool": st.sampled_from(["main", ["other", "main"]]),
        "priority": st.integers(0, 200), "pods": st.integers(1, 4), "gang": st.booleans(),
        "gpus": st.sampled_from([0.25, 0.5, 1, 2, 8]), "cpu": st.integers(0, 8), "memory_mib": st.integers(0, 100),
        "gpu_types": st.just(["H100"]), "partition": st.just("x"), "topology": st.just({"preferred": "rack"}),
        "status": st.sampled_from(["pending", "queued", "starting", "running", "stopping"]),
        "submitted": times("-10m", "0s", "10m"), "started": times("-5m", "0s"), "checkpointed": times("-1m"),
        "time_limit": times("10m", "1ms"), "preemptions": st.integers(0, 3), "depends_on": st.just(["w0"]),
        "held": st.booleans(), "tolerations": st.just(["k"]), "duration": times("1m", "20m"),
        "on_preemption": st.sampled_from(["requeue", "stop"]),
    },
)  # fmt: skip


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """An organisation that is mostly right; names are given by position, parents are earlier teams."""
    nodes = draw(st.lists(NODES, min_size=1, max_size=3))
    rows = draw(st.lists(WORKLOADS, max_size=6))
    for rows_of, stem in ((nodes, "n"), (rows, "w")):
        for number, row in enumerate(rows_of):
            row["name"] = f"{stem}{number}" + ("-{i}" if "count" in row else "")
    teams = [{"name": name, **draw(TEAMS)} for name in "ab"] + [{"name": "c", "parent": "a", **draw(TEAMS)}]
    pools = [
        {
            "name": "main",
            "topology": ["rack"],
            "nodes": nodes,
            "policy": draw(POLICIES),
            "recent": [{"gpus": 1}],
        },
        {"name": "other", "nodes": [{"name": "o", "gpus": 2}]},
    ]
    return {
        "version": 1,
        "pools": pools,
        "teams": teams,
        "workloads": rows,
        "expect": {"workloads": {"*": {}}},
    }


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every path into a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(deep for key, each in inner for deep in places(each, (*path, key)))][not path :]


def spoilt(draw: st.DrawFn, document: dict[str, Any]) -> dict[str, Any]:
    """The document with a value, a key or a row other than it should be."""
    document = copy.deepcopy(document)
    *way, last = draw(st.sampled_from(places(document)))
    parent: Any = document
    for key in way:
        parent = parent[key]
    wrong = draw(st.sampled_from(WRONG))
    match draw(st.sampled_from(["exchange", "remove", "double", "add"])):
        case "exchange":
            parent[last] = wrong
        case "remove":
            del parent[last]
        case "double" if isinstance(parent, list):
            parent.append(copy.deepcopy(parent[last]))
        case _ if isinstance(parent, dict):
            parent[draw(st.sampled_from(["on", "parent", "nodes", "count", "gpu_milli", "expect", ""]))] = (
                wrong
            )
    return document


@st.composite
def damaged(draw: st.DrawFn, of: st.SearchStrategy[bytes]) -> bytes:
    """Bytes some of which are missing, doubled, exchanged or of another file."""
    content = draw(of)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.sampled_from([0, 1, 2, 8, 60])))
        other = draw(of)
        begin = draw(st.integers(0, len(other)))
        piece = draw(st.sampled_from([
            b"", content[start:end] * 2, content[start:end] * 50, other[begin : begin + 60], b"\x00", b"\xff", b"&a ",
            b"*a", b"\n", b"\t", b"- ", b"}", b"[" * 2000, b"? ", b"!!python/object:os.system ", b"%TAG ! !",
            b"9" * 400, "\u2028".encode(), b"'", b'"', b"|\n", b"...\n---\n",
        ]))  # fmt: skip
        content = content[:start] + piece + content[end:]
    return content


def survived(content: bytes, form: Format, trace: bytes | None = None) -> Scenario | None:
    """Load, decide, show and run; return None for what was refused as it should be."""
    try:
        found = load(content, form, trace=trace, future=True)
    except ScenarioError as refusal:
        _look_at(refusal, trace if refusal.in_trace and trace else content)
        return None
    snapshot = found.snapshot
    pods = sum(each.pods for each in (*snapshot.workloads, *found.arrivals))
    if len(snapshot.nodes) + len(found.arrivals) + len(snapshot.workloads) + pods > MOST_ROWS:
        return found
    plan = schedule(snapshot, found.now)
    assert sum(
        map(len, (plan.starts, plan.grows, plan.keeps, plan.shrinks, plan.preemptions, plan.waits))
    ) == len(snapshot.workloads)
    shown = as_object(snapshot, found.now, plan)
    differences(found.expectations, shown)
    assert json.loads(as_text(shown))["workloads"].keys() == {each.id for each in snapshot.workloads}
    _run(found)
    return found


def _look_at(refusal: ScenarioError, content: bytes) -> None:
    """A refusal is one line of text, and names a line that there is."""
    assert 0 < len(refusal.message) < 2000
    assert refusal.message.isprintable()
    assert refusal.line is None or 1 <= refusal.line <= content.count(b"\n") + 2


def _run(found: Scenario) -> None:
    """Let an hour pass: no device is over its capacity in any plan, and the counts agree."""

    def look(snapshot: Snapshot, plan: Any, now: int) -> None:
        broken = [each for each in check(snapshot, plan, now) if each.rule.startswith("device")]
        assert not broken

    ending = SimulationClock(found, [look]).run(HOUR_MS, 1000)
    everything = summary_of(ending.snapshot, ending.tally, ending.now).everything
    assert everything.finished <= len(found.snapshot.workloads) + len(found.arrivals)
    assert 0 <= everything.started <= everything.submitted


@fuzzed
@given(st.data(), st.integers(0, 3), st.sampled_from(Format))
def test_an_organisation_with_a_few_wrong_values(data: st.DataObject, faults: int, form: Format) -> None:
    document = data.draw(documents())
    for _ in range(faults):
        document = data.draw(st.composite(spoilt)(document))
    survived(json.dumps(document, indent=1).encode(), form)


@fuzzed
@given(damaged(st.sampled_from(CASES)))
@example(b"a: &a [x]\nb: *a\n")
@example(b"pools: [" * 5000)
def test_a_scenario_whose_bytes_are_damaged(content: bytes) -> None:
    survived(content, Format.YAML)


@fuzzed
@given(damaged(documents().map(lambda document: json.dumps(document).encode())))
def test_json_whose_bytes_are_damaged(content: bytes) -> None:
    survived(content, Format.JSON)


HEAD = b'{"version": 1, "pools": [{"name": "main", "nodes": [{"name": "n", "gpus": 8}]}], "teams": [{"name": "a"}]}'
TRACE = b"""\
name,team,pool,gpus,pods,submitted,duration,topology,depends_on
x,a,main,1,1,0s,5m,,
y,a,"[main]",0.5,2,30s,10m,{required: node},[x]
z,a,,8,1,-5m,,,"[x, y]"
"""


@fuzzed
@given(damaged(st.just(TRACE)))
def test_a_trace_whose_bytes_are_damaged(trace: bytes) -> None:
    survived(HEAD, Format.JSON, trace)


@fuzzed
@given(damaged(st.just(gzip.compress(TRACE, mtime=0))))
def test_a_packed_trace_whose_bytes_are_damaged(packed: bytes) -> None:
    with suppress(ScenarioError):
        survived(HEAD, Format.JSON, unpacked(packed, "trace.csv.gz"))


def test_what_is_right_is_let_in() -> None:
    assert survived(HEAD, Format.JSON, TRACE) is not None
    assert all(survived(case, Format.YAML) is not None for case in CASES[:20])
