"""Messages: what is read back is what was written, and what is none is refused with a sentence."""

import json
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlink import protocol
from agentlink.models import Cluster
from agentlink.protocol import (
    Ack,
    AssignedPod,
    AssignedShare,
    Desired,
    DesiredAttempt,
    DeviceReport,
    Discovered,
    DiscoveredJob,
    Error,
    ErrorCode,
    Heartbeat,
    Hello,
    InvalidMessage,
    Inventory,
    NamespaceBinding,
    NamespaceReport,
    Namespaces,
    NodeReport,
    NoteReport,
    NotesReport,
    Observed,
    PodReport,
    PodState,
    RefusedNotes,
    Released,
    Report,
    ReportedPhase,
    StopNotice,
    StopOrder,
    Taken,
    UsageFigure,
    UsageReport,
    Verdict,
    Verdicts,
)
from chamber.notes import NoteKind, NoteProblem
from workloads.models import Workload

ONE, TWO, THREE = (uuid.UUID(int=number) for number in (1, 2, 3))
NOW = datetime(2026, 11, 21, 14, 30, 0, 250000, UTC)

REPORT = Report(
    workload=ONE, attempt=TWO, number=3, sequence=4, generation=2, phase=ReportedPhase.FAILED,
    pods=(PodReport(index=0, node="n1", state=PodState.FAILED, reason="oom"),), reason="out-of-memory",
    message="It used more memory than it asked for.", exit_code=137, created_at=NOW, running_at=NOW, ended_at=NOW,
)  # fmt: skip
ASSIGNMENT = DesiredAttempt(
    workload=ONE, slug="train-x", attempt=TWO, number=1, let_go=True, image="img:1", command=("sh", "-c", "é"),
    environment={"A": "b"}, cpu_milli=1000, memory_mib=512, grace_seconds=30, time_limit_seconds=60, reported=7,
    pods=(AssignedPod(index=0, node="n1", devices=(AssignedShare(index=3, share_milli=250),)),),
)  # fmt: skip
NODE = NodeReport(
    name="n1", ready=False, cordoned=True, cpu_milli=64000, memory_mib=1, labels={"zone": "a"},
    taints=("a=b:NoSchedule",), partition="big", sharing=False,
    devices=(DeviceReport(index=0, gpu_type="H100", memory_mib=81920, foreign=True),),
)  # fmt: skip

JOB = DiscoveredJob(
    uid="u", namespace="n", name="j", pods=2, gpus=4, cpu_milli=1, memory_mib=2, image="i:1", command=("a", "é"),
    node_selector={"zone": "a"}, tolerations=("gpu",), time_limit_seconds=60, grace_seconds=9, priority="high",
    who="ada", service_account="trainer", volumes=("csi",), problems=("No.",), finished=True,
)  # fmt: skip

FROM_AGENT = [
    Hello(connection=ONE, agent_version="1", cluster_uid="u", nodes=1, gpus=8),
    Hello(connection=ONE, agent_version="1", cluster_uid="u", nodes=0, gpus=0, farewell=True),
    Released(),
    Heartbeat(connection=ONE, generation=4),
    Inventory(generation=1, part=0, last=True, nodes=(NODE,)),
    Observed(reports=(REPORT,)),
    Discovered(jobs=(DiscoveredJob(uid="u", namespace="n", name="j"),)),
    Discovered(
        version=2,
        after="a",
        last=False,
        jobs=(JOB,),
        namespaces=(
            NamespaceReport(namespace="n", ready=False, problem="No.", foreign_jobs=1, foreign_gpus=2),
        ),
    ),
    UsageReport(figures=(UsageFigure(workload=ONE, at=NOW, utilisation_percent=93, memory_mib=4),)),
    NotesReport(
        notes=(
            NoteReport(attempt=ONE, at=NOW, kind=NoteKind.CHECKPOINT, step=0, said_at=NOW, of_attempt=2),
            NoteReport(attempt=ONE, at=NOW, kind=NoteKind.PROGRESS, millionths=0),
            NoteReport(attempt=ONE, at=NOW, kind=NoteKind.LINK, name="tb", url="https://tb.example/"),
        ),
        refused=(RefusedNotes(attempt=ONE, problem=NoteProblem.STEP, message="No.", count=2),),
    ),
]
FROM_SERVER = [
    Desired(connection=ONE, generation=9, base=8, part=0, last=True, assignments=(ASSIGNMENT,),
            stop=(StopOrder(workload=ONE, attempt=TWO, number=1, reported=3,
                            notice=StopNotice(why="Reclaimed.", signal_at=NOW, grace_seconds=60)),), forget=(THREE,)),
    Desired(connection=ONE, generation=9, base=None, part=0, last=False),
    Ack(reports=(Taken(attempt=ONE, sequence=3),), inventory=4),
    Namespaces(version=2, bound=(NamespaceBinding(id=ONE, namespace="nlp-jobs", team="nlp"),)),
    Verdicts(verdicts=(Verdict(uid="u", workload="train-x", note="Lowered."), Verdict(uid="v", refused="No."))),
    Error(code=ErrorCode.UNKNOWN_ATTEMPT, message="No.", about="observed", attempt=ONE),
]  # fmt: skip


@pytest.mark.parametrize("message", FROM_AGENT, ids=lambda message: message.type)
def test_what_an_agent_wrote_is_read_back_the_same(message: Any) -> None:
    assert protocol.from_agent(protocol.encode(message)) == message
    assert protocol.from_agent(protocol.encode(message).encode()) == message


@pytest.mark.parametrize("message", FROM_SERVER, ids=lambda message: message.type)
def test_what_the_server_wrote_is_read_back_the_same(message: Any) -> None:
    assert protocol.from_server(protocol.encode(message)) == message


@pytest.mark.parametrize("message", FROM_SERVER, ids=lambda message: message.type)
def test_a_message_of_the_other_direction_is_refused(message: Any) -> None:
    answer = protocol.from_agent(protocol.encode(message))
    assert isinstance(answer, InvalidMessage)
    assert f"type '{message.type}' are unknown here" in answer.message


BEAT: dict[str, Any] = {"protocol": 1, "type": "heartbeat", "connection": str(ONE), "generation": 1}


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("null", "an object that names its type"),
        ("[]", "an object that names its type"),
        ("{}", "an object that names its type"),
        ('"hello"', "an object that names its type"),
        ('{"type": "log"}', "type 'log' are unknown here"),
        ('{"type": 4}', "type '4' are unknown here"),
        (json.dumps(BEAT | {"protocol": 2}), "Protocol 2 is not spoken here, only 1."),
        (json.dumps(BEAT | {"protocol": "1"}), "Protocol '1' is not spoken here"),
        (json.dumps(BEAT | {"generation": -1}), "generation is -1; at least 0 is allowed."),
        (json.dumps(BEAT | {"generation": 2**53}), "generation is 9007199254740992; at most 9,"),
        (json.dumps(BEAT | {"generation": "1"}), "generation is '1'; it must be a whole number."),
        (json.dumps(BEAT | {"generation": True}), "generation is true; it must be a whole number."),
        (json.dumps(BEAT | {"generation": None}), "generation is null; it must be a whole number."),
        (json.dumps(BEAT | {"connection": "x"}), "connection is 'x'; it must be a UUID"),
        (json.dumps(BEAT | {"extra": 1}), "There is no field 'extra'."),
        (json.dumps(BEAT)[:-1] + ', "generation": NaN}', "generation is nan; it must be a whole number."),
        ("[" * 100_000, "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"\x00", "not JSON"),
    ],
)  # fmt: skip
def test_what_is_no_message_is_refused_with_a_sentence(data: str | bytes, sentence: str) -> None:
    answer = protocol.from_agent(data)
    assert isinstance(answer, InvalidMessage)
    assert sentence in answer.message
    assert answer.as_error().message == answer.message


@pytest.mark.parametrize(
    "change",
    [
        {"phase": "paused"}, {"number": 0}, {"sequence": 0}, {"exit_code": 2**31},
        {"created_at": "2026-01-01T00:00:00"},
        {"reason": "x" * 41}, {"message": "a\x00b"}, {"pods": [{"index": 0, "node": "", "state": "running"}]},
        {"workload": None},
    ],
    ids=str,
)  # fmt: skip
def test_a_report_with_a_value_out_of_bounds_is_refused(change: dict[str, Any]) -> None:
    report = json.loads(REPORT.model_dump_json()) | change
    body = {"protocol": 1, "type": "observed", "reports": [report]}
    assert isinstance(protocol.from_agent(json.dumps(body)), InvalidMessage)


@pytest.mark.parametrize(
    ("part", "field", "model"),
    [(Hello, "agent_version", Cluster), (Hello, "cluster_uid", Cluster), (Report, "reason", Workload)],
)
def test_what_an_agent_says_fits_the_column_that_keeps_it(part: Any, field: str, model: Any) -> None:
    column = {"cluster_uid": "uid", "reason": "reason_code"}.get(field, field)
    (most,) = [rule.max_length for rule in part.model_fields[field].metadata if hasattr(rule, "max_length")]
    assert most <= model._meta.get_field(column).max_length


def test_a_node_whose_device_comes_twice_is_refused() -> None:
    node = {"name": "n1", "devices": [{"index": 3}, {"index": 3}]}
    body = {"protocol": 1, "type": "inventory", "generation": 1, "part": 0, "last": True, "nodes": [node]}
    answer = protocol.from_agent(json.dumps(body))
    assert isinstance(answer, InvalidMessage)
    assert "an index of a device comes twice" in answer.message


def test_a_message_over_one_mebibyte_is_refused_by_its_size() -> None:
    text = json.dumps(BEAT)
    assert not isinstance(protocol.from_agent(text + " " * (protocol.MAX_BYTES - len(text))), InvalidMessage)
    for too_large in (text + " " * (protocol.MAX_BYTES - len(text) + 1), "é" * (protocol.MAX_BYTES // 2 + 1)):
        answer = protocol.from_agent(too_large)
        assert isinstance(answer, InvalidMessage)
        assert answer.code is ErrorCode.TOO_LARGE


@given(st.binary(max_size=200) | st.text(max_size=200))
def test_no_bytes_whatever_raise(data: str | bytes) -> None:
    assert isinstance(protocol.from_agent(data), InvalidMessage)
    assert isinstance(protocol.from_server(data), InvalidMessage)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(FROM_AGENT), st.data())
def test_a_message_with_one_value_exchanged_is_read_or_refused(message: Any, data: st.DataObject) -> None:
    body = json.loads(protocol.encode(message))
    key = data.draw(st.sampled_from(sorted(body)))
    body[key] = data.draw(json_values)
    answer = protocol.from_agent(json.dumps(body))
    assert isinstance(answer, InvalidMessage) or answer.type == message.type or key == "type"


def test_ten_thousand_nodes_travel_in_parts_within_the_bound() -> None:
    nodes = [NODE.model_copy(update={"name": f"n{number}"}) for number in range(10_000)]
    parts = list(protocol.inventory_in_parts(nodes, generation=5))
    assert len(parts) > 1
    assert max(len(protocol.encode(part).encode()) for part in parts) <= protocol.MAX_BYTES
    assert [part.part for part in parts] == list(range(len(parts)))
    assert [part.last for part in parts] == [False] * (len(parts) - 1) + [True]
    assert [node.name for part in parts for node in part.nodes] == sorted(node.name for node in nodes)


def test_an_assignment_with_very_many_pods_comes_in_pieces() -> None:
    pods = tuple(ASSIGNMENT.pods[0].model_copy(update={"index": index}) for index in range(20_000))
    large = ASSIGNMENT.model_copy(update={"pods": pods})
    parts = list(
        protocol.desired_in_parts(
            connection=ONE, generation=1, base=None, assignments=[large], stop=[], forget=[ONE] * 5000
        )
    )
    assert max(len(protocol.encode(part).encode()) for part in parts) <= protocol.MAX_BYTES
    assert sum(len(piece.pods) for part in parts for piece in part.assignments) == 20_000
    assert [order for part in parts for order in part.forget] == [ONE] * 5000
    assert parts[-1].last


def test_an_empty_set_is_one_message_and_no_reports_are_none() -> None:
    (only,) = protocol.desired_in_parts(
        connection=ONE, generation=3, base=None, assignments=[], stop=[], forget=[]
    )
    assert only.last
    assert list(protocol.observed_in_parts([])) == []


@pytest.mark.parametrize(
    ("phase", "states", "frees"),
    [
        (ReportedPhase.RUNNING, [PodState.RUNNING], False),
        (ReportedPhase.STOPPING, [PodState.RUNNING], False),
        (ReportedPhase.FAILED, [PodState.FAILED, PodState.RUNNING], False),
        (ReportedPhase.FAILED, [PodState.FAILED], True),
        (ReportedPhase.SUCCEEDED, [], True),
        (ReportedPhase.GONE, [], True),
    ],
)
def test_devices_are_free_when_no_pod_lives(
    phase: ReportedPhase, states: list[PodState], frees: bool
) -> None:
    pods = tuple(PodReport(index=index, node="n1", state=state) for index, state in enumerate(states))
    assert REPORT.model_copy(update={"phase": phase, "pods": pods}).frees_devices is frees


@pytest.mark.parametrize("text", ["\x00", "a\x00b"])
def test_what_quotes_a_wrong_value_can_be_told_itself(text: str) -> None:
    found = protocol.from_agent(
        json.dumps({"protocol": 1, "type": "heartbeat", "connection": text, "generation": 0})
    )
    assert isinstance(found, protocol.InvalidMessage)
    assert not isinstance(protocol.from_server(protocol.encode(found.as_error())), protocol.InvalidMessage)


def test_what_was_discovered_is_cut_into_parts_that_speak_for_all_uids() -> None:
    jobs = [DiscoveredJob(uid=f"u{number:04}", namespace="n", name="j") for number in reversed(range(450))]
    parts = list(protocol.discovered_in_parts(jobs, [NamespaceReport(namespace="n", ready=True)], version=5))
    assert [(part.after, part.last, len(part.jobs)) for part in parts] == [
        ("", False, 200), ("u0199", False, 200), ("u0399", True, 50),
    ]  # fmt: skip
    assert all((part.version, len(part.namespaces)) == (5, 1) for part in parts)
    (empty,) = protocol.discovered_in_parts([], [], version=1)
    assert (empty.after, empty.last, empty.jobs) == ("", True, ())


def test_jobs_out_of_order_are_refused() -> None:
    text = protocol.encode(Discovered(jobs=(JOB,))).replace("]}", f",{JOB.model_dump_json()}]}}")
    answer = protocol.from_agent(text)
    assert isinstance(answer, InvalidMessage)
