"""The independent reader finds nothing in a healthy database, and whatever is broken in one."""

import itertools
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

from chaos import truths
from chaos.truths import TruthViolation
from rig import servers
from rig.servers import PostgreSQL
from tests.chaos_database import copy, fill, made, migrate

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def healthy() -> Iterator[PostgreSQL]:
    """A server with the healthy database."""
    with servers.postgresql() as server:
        migrate(server.url)
        fill(server.url)
        yield server


def pod(what: str, workload: str, at: float, *, attempt: int = 1, message: str = "") -> dict[str, Any]:
    """Return a line of a cluster's record."""
    gpu = 1 if workload in ("old", "next") else 0
    return {
        "what": what, "at": at, "workload": str(made(workload)), "attempt": str(made(f"{workload}{attempt}")),
        "number": attempt, "pod": 0, "node": "east-0", "devices": [[gpu, 1000]], "message": message,
    }  # fmt: skip


RAN = [
    pod("created", "done", 1),
    pod("created", "old", 2),
    pod("ended", "done", 3),
    pod("created", "running", 4),
]


NUMBERS = itertools.count(1)


def asked(act: str, status: int | None = 200, user: str = "rosa", **given: Any) -> list[dict[str, Any]]:
    """Return the lines of the load's journal for one request."""
    number, made = next(NUMBERS), given.pop("made", [])
    row = {"target": "", "key": "", "names": [], **given}
    question = {"at": 0, "id": number, "user": user, "act": act, **row}
    return [question, {"at": 1, "id": number, "status": status, "made": made}]


ANSWERED = [
    line
    for name in ("done", "running", "waiting")
    for line in asked("submit", 201, key=name, names=[name], made=[name])
]


def look(
    url: str, folder: Path, answers: list[dict[str, Any]], pods: list[dict[str, Any]]
) -> list[TruthViolation]:
    """Return what the reader finds, of both kinds."""
    written = {"answers": answers, "east": [line for line in pods if "west" not in line["node"]]}
    written["west"] = [line for line in pods if "west" in line["node"]]
    for name, lines in written.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    where = url, folder / "answers.jsonl", (folder / "east.jsonl", folder / "west.jsonl")
    return truths.safety(*where) + truths.settled(*where)


def test_a_healthy_database_has_no_violation(healthy: PostgreSQL, tmp_path: Path) -> None:
    assert [str(found) for found in look(healthy.url, tmp_path, ANSWERED, RAN)] == []


@dataclass(frozen=True, slots=True)
class Broken:
    """What is broken, and what the reader says: the truth's number and a part of its sentence."""

    truth: int
    says: str
    sql: str = ""
    answers: list[dict[str, Any]] = field(default_factory=list)
    pods: list[dict[str, Any]] = field(default_factory=list)


def event(workload: str, number: int, kind: str, data: str = "{}") -> str:
    """Return the SQL of one more event of a workload, with what the row counts."""
    return (
        "INSERT INTO workloads_event (workload_id, sequence, at, kind, actor, via, attempt_number, message, data) "
        f"VALUES ('{made(workload)}', {number}, now(), '{kind}', 'scheduler', 'system', 1, '', '{data}'); "
        f"UPDATE workloads_workload SET last_event = {number} WHERE slug = '{workload}'; "
    )


def drop(table: str, constraint: str) -> str:
    """Return the SQL that takes a guard away."""
    return f"ALTER TABLE {table} DROP CONSTRAINT {constraint}; "


def cut(gpu_type: str, asked: int, share: int, slicing: str, types: str) -> str:
    """Return the SQL that frees and cuts all devices, and has somebody wait who asks for so much of such types."""
    return (
        "UPDATE agentlink_placement SET hold = 'released'; UPDATE agentlink_device SET occupied_milli = 0, "
        f"allocated_milli = 0, gpu_type = '{gpu_type}', slicing = '{slicing}', share_milli = {share}; "
        f"UPDATE workloads_workload SET gpu_milli = {asked}, gpu_types = '{types}', pods = 2 WHERE slug = 'waiting'"
    )


WEST = {"node": "west-0"}
BROKEN = {
    "a device is given out twice": Broken(
        1, "2000 milli-GPUs held",
        drop("agentlink_device", "device_occupied_within_capacity")
        + drop("agentlink_device", "device_allocated_within_capacity")
        + f"UPDATE agentlink_placement SET hold = 'held', device_id = '{made('gpu0')}' WHERE id = '{made('nextp')}'",
    ),
    "a counter is wrong": Broken(
        1, "its counter says 0", f"UPDATE agentlink_device SET occupied_milli = 0 WHERE id = '{made('gpu0')}'"
    ),
    "a newcomer is let go early": Broken(
        1, "before the old were gone",
        f"UPDATE agentlink_assignment SET let_go = true WHERE attempt_id = '{made('next1')}'; "
        + event("next", 3, "let-go") + event("old", 7, "devices-freed"),
    ),
    "what is gone keeps its devices": Broken(
        1, "released and still has devices",
        f"UPDATE workloads_attempt SET released_at = now() WHERE id = '{made('old1')}'",
    ),
    "pods are left of what is gone": Broken(
        1, "still has pods", pods=[pod("created", "done", 5)],
    ),
    "a cluster has no room": Broken(
        1, "the old were not gone", pods=[pod("refused", "next", 5, message="GPU 1 has less than 1 GPU left.")]
    ),
    "a plan is made of an old picture": Broken(
        1, "as if cycle 1 had not started running",
        "UPDATE scheduling_cycle SET snapshot = (SELECT snapshot FROM scheduling_cycle WHERE number = 1)",
    ),
    "reserved work is preempted": Broken(
        2, "is reserved (priority 100)", "UPDATE workloads_workload SET priority = 100 WHERE slug = 'old'"
    ),
    "who was preempted was reserved then": Broken(
        2, "that had priority 100 then",
        event("next", 3, "preempted-others", '{"victims": [{"workload": "x", "priority": 100}]}'),
    ),
    "reserved work bursts": Broken(
        2, "charged to burst",
        """UPDATE workloads_attempt SET allocation = '[{"team": null, "milli": 1}]' WHERE phase = 'running'""",
    ),
    "a guarantee is spent twice": Broken(
        2, "of the 1000 that alpha has", "UPDATE workloads_workload SET priority = 100 WHERE slug = 'next'"
    ),
    "a guarantee waits for who bursts": Broken(
        2, "of its guarantee left",
        "UPDATE workloads_workload SET priority = 50 WHERE slug = 'running'; "
        "UPDATE workloads_workload SET priority = 100, gpu_milli = 1000 WHERE slug = 'waiting'",
    ),
    "an answered submission is lost": Broken(
        3, "lost was answered", answers=asked("submit", 201, made=["lost"], names=["lost"])
    ),
    "a submission has another owner": Broken(
        3, "has another owner", answers=asked("submit", 201, "vito", made=["done"], names=["done"])
    ),
    "a request is carried out twice": Broken(
        3, "of the one request done", "UPDATE workloads_workload SET name = 'done' WHERE slug = 'waiting'"
    ),
    "a key has two answers": Broken(
        3, "answered with different", answers=asked("submit", 201, key="done", made=["waiting"], names=["waiting"])
    ),
    "an answered act is lost": Broken(
        3, "answered 1 times to cancel", answers=asked("cancel", target="running")
    ),
    "an answered edit is lost": Broken(3, "the trail tells of 0", answers=asked("edit-team", target="teams/alpha/")),
    "an event is lost": Broken(4, "missing [3]", "DELETE FROM workloads_event WHERE kind = 'status' AND sequence = 3"),
    "events are out of order": Broken(
        4, "out of their order", "UPDATE workloads_event SET id = 900 + id WHERE sequence = 2"
    ),
    "a status is illegal": Broken(
        4, "went from queued to running",
        """UPDATE workloads_event SET data = '{"status": "running"}' WHERE sequence = 3""",
    ),
    "what was not displaced comes back": Broken(
        4, "came back to the queue from running", event("running", 5, "status", '{"status": "pending"}')
    ),
    "what was displaced is preempted": Broken(
        4, "was displaced and made it preempted",
        "UPDATE workloads_attempt SET end_reason = 'displaced' WHERE end_reason = 'preempted'",
    ),
    "a status has no event": Broken(
        4, "by its events it is pending",
        "UPDATE workloads_workload SET status = 'failed', finished_at = now() WHERE slug = 'waiting'",
    ),
    "an update is lost": Broken(
        4, "waiting has version 7", "UPDATE workloads_workload SET version = 7 WHERE slug = 'waiting'"
    ),
    "an event has no actor": Broken(4, "has no actor", "UPDATE workloads_event SET actor = ''"),
    "an attempt has no event": Broken(4, "are numbered [2]", "UPDATE workloads_attempt SET number = 2"),
    "an attempt runs twice": Broken(4, "ran pod 0 of attempt 1 of done twice", pods=[pod("created", "done", 5)]),
    "an attempt runs in two clusters": Broken(
        4, "ran in two clusters", pods=[{**pod("created", "running", 5), **WEST}]
    ),
    "two attempts run at once": Broken(
        4, "had pods at once", pods=[{**pod("created", "old", 5, attempt=2), **WEST}]
    ),
    "pods come from nowhere": Broken(4, "the tables know nothing", pods=[pod("created", "unknown", 5)]),
    "nobody says why it waits": Broken(5, "waits without a reason", "UPDATE workloads_workload SET reason_code = ''"),
    "GPUs are idle": Broken(
        5, "there is room",
        "UPDATE agentlink_placement SET hold = 'released'; "
        "UPDATE workloads_workload SET gpu_milli = 1000 WHERE slug = 'waiting'",
    ),
    "a part of a GPU is idle": Broken(5, "there is room", cut("", 500, 1000, "whole", "[]")),
    "slices that it names are idle": Broken(5, "there is room", cut("mig", 1000, 143, "mig", '["mig"]')),
    "replicas for parts are idle": Broken(5, "there is room", cut("", 250, 250, "replicas", "[]")),
    "nobody lets it go": Broken(
        5, "its devices are free", f"UPDATE agentlink_placement SET hold = 'released' WHERE id = '{made('oldp')}'"
    ),
    "nobody starts it": Broken(
        5, "its pods may exist", f"UPDATE agentlink_assignment SET let_go = true WHERE attempt_id = '{made('next1')}'"
    ),
    "nobody sees its end": Broken(5, "has no pod of it", pods=[pod("ended", "running", 5)]),
    "nobody frees its devices": Broken(5, "keeps its devices", pods=[pod("ended", "old", 5)]),
    "a cluster stays away": Broken(5, "is not connected", "UPDATE agentlink_cluster SET connected = false"),
    "an index is gone": Broken(6, "workload_open is not there", "DROP INDEX workload_open"),
    "an index holds history": Broken(
        6, "holds finished work", "DROP INDEX workload_open; CREATE INDEX workload_open ON workloads_workload (id)"
    ),
    "a stranger submits": Broken(7, "rosa submitted", "DELETE FROM teams_binding"),
    "a stranger acts": Broken(
        7, "vito acted on done", f"UPDATE workloads_event SET user_id = '{made('vito')}', actor = 'vito' WHERE id = 1"
    ),
    "a stranger is let in": Broken(7, "was let do", answers=asked("forbidden-cancel", user="vito", target="done")),
}  # fmt: skip


@pytest.mark.parametrize(
    "sql",
    [
        cut("mig", 1000, 143, "mig", "[]"),
        cut("mig", 250, 429, "mig", "[]"),
        cut("mig", 500, 143, "mig", '["mig"]'),
        cut("shared", 1000, 250, "replicas", "[]"),
        cut("shared", 500, 250, "replicas", '["shared"]'),
        cut("", 500, 1000, "whole", "[]") + "; UPDATE agentlink_node SET sharing = false",
        # One of a GPU and a slice, where a gang of two lies on one sort.
        cut("mig", 1000, 143, "mig", '["mig", "H100"]')
        + "; UPDATE agentlink_device SET slicing = 'whole', share_milli = 1000, gpu_type = 'H100' WHERE index = 0",
    ],
)
def test_what_it_could_not_use_is_not_idle_for_who_waits(
    healthy: PostgreSQL, tmp_path: Path, sql: str
) -> None:
    with copy(healthy, "unusable") as url:
        with psycopg.connect(url) as connection:
            connection.execute("ALTER TABLE workloads_workload DISABLE TRIGGER USER")
            connection.execute(sql)
        found = look(url, tmp_path, ANSWERED, RAN)
    assert not [each for each in found if "waiting waits" in str(each) and "there is room" in str(each)]


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_found(healthy: PostgreSQL, tmp_path: Path, name: str) -> None:
    broken = BROKEN[name]
    with copy(healthy, "broken") as url:
        with psycopg.connect(url) as connection:
            # Rules that the database keeps by triggers are set aside; its counters of devices follow all the same.
            connection.execute("ALTER TABLE workloads_event DISABLE TRIGGER USER")
            connection.execute("ALTER TABLE workloads_workload DISABLE TRIGGER USER")
            if broken.sql:
                connection.execute(broken.sql)
        found = look(url, tmp_path, ANSWERED + broken.answers, RAN + broken.pods)
    told = [violation for violation in found if broken.says in violation.sentence]
    assert told, [str(violation) for violation in found]
    assert {violation.truth for violation in told} == {broken.truth}


def test_a_journal_that_was_cut_off_is_read_up_to_there(healthy: PostgreSQL, tmp_path: Path) -> None:
    lost = asked("submit", 201, names=["lost"], made=["lost"])
    (tmp_path / "answers.jsonl").write_text(json.dumps(lost[0]) + "\n" + json.dumps(lost[1])[:-1])
    assert truths.safety(healthy.url, tmp_path / "answers.jsonl") == []


def test_what_is_answered_while_the_tables_are_read_may_be_in_them_or_not(
    healthy: PostgreSQL, tmp_path: Path
) -> None:
    question, answer = asked("submit", 201, names=["lost"], made=["lost"])
    late = {**answer, "at": time.monotonic() + 3600}
    assert look(healthy.url, tmp_path, [*ANSWERED, question, late], RAN) == []
