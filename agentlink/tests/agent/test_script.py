"""What played pods write: as their command says, always the same, made when it is asked for."""

from contextlib import aclosing
from typing import Any
from uuid import UUID

import pytest

from agentlink.agent.backends.base import NoLogs
from agentlink.agent.backends.simulated import SimulatedCluster
from agentlink.protocol import AssignedPod, AssignedShare, DesiredAttempt
from agentlink.tests.agents import nodes
from chamber.notes import NoteKind, read_line

ATTEMPT = UUID(int=5)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def cluster_with(command: str, clock: Clock, *, read_notes: bool = False) -> SimulatedCluster:
    cluster = SimulatedCluster(nodes(1), clock=clock)
    pods = [
        AssignedPod(index=index, node="n1", devices=(AssignedShare(index=index, share_milli=1000),))
        for index in (0, 1)
    ]
    await cluster.create(
        DesiredAttempt(
            workload=UUID(int=4), slug="s", attempt=ATTEMPT, number=1, pods=tuple(pods), let_go=True, image="i",
            command=("sh", "-c", command), grace_seconds=5, read_notes=read_notes,
        ),
        pods,
    )  # fmt: skip
    return cluster


async def read(cluster: SimulatedCluster, pod: int = 0, **how: Any) -> tuple[str, str]:
    how = {"follow": False, "tail_bytes": 100_000, **how}
    text, cursor = "", ""
    async with aclosing(cluster.logs(ATTEMPT, pod, **how)) as pieces:
        async for piece in pieces:
            text += piece.data.decode()
            cursor = piece.cursor
    return text, cursor


async def test_it_echoes_between_its_sleeps() -> None:
    clock = Clock()
    cluster = await cluster_with("echo 'one; two'; sleep 10 && echo three; sleep 10; exit 4", clock)
    with pytest.raises(NoLogs) as refused:
        await read(cluster)
    assert refused.value.not_started
    clock.now += 5
    first, cursor = await read(cluster)
    clock.now += 10
    assert (await read(cluster, after=cursor))[0] == "three\n"
    clock.now += 10
    assert (await read(cluster))[0] == first + "three\n"


async def test_a_program_trains_and_each_look_tells_the_same() -> None:
    clock = Clock()
    cluster = await cluster_with("python train.py --seconds 100000", clock)
    clock.now += 50_000
    whole, cursor = await read(cluster, tail_bytes=10_000_000)
    assert whole.startswith("+ sh -c python train.py --seconds 100000\nrank 0 of 2 on n1, 1 x GPU\nstep ")
    assert (await read(cluster, tail_bytes=10_000_000))[0] == whole
    tail, _ = await read(cluster, tail_bytes=500)
    assert whole.endswith(tail)
    assert 400 < len(tail) <= 500
    assert (await read(cluster, pod=1))[0] != whole
    assert (await read(cluster, after=cursor))[0] == ""


async def test_where_notes_are_read_a_program_writes_some_with_their_times() -> None:
    clock = Clock()
    cluster = await cluster_with("python train.py --seconds 100", clock, read_notes=True)
    clock.now += 40
    async with aclosing(cluster.logs(ATTEMPT, 0, follow=False, tail_bytes=100_000)) as pieces:
        noted = [(piece.at, note) async for piece in pieces if (note := read_line(piece.data.decode()))]
    assert {getattr(note, "kind", note) for _, note in noted} == {NoteKind.CHECKPOINT, NoteKind.PROGRESS}
    times = [at.timestamp() for at, _ in noted if at is not None]
    assert times == sorted(set(times))
    assert len(times) == len(noted)
    assert 0 < times[-1] - times[0] < 40
    clock.now += 20
    await cluster.stop(ATTEMPT, None)
    *_, said, last, _ = (await read(cluster))[0].split("\n")
    assert said == "SIGTERM received: a checkpoint is written"
    assert last.startswith("::chamber checkpoint step=")


async def test_one_that_is_stopped_says_so_and_is_gone_with_its_log() -> None:
    clock = Clock()
    cluster = await cluster_with("python train.py", clock)
    clock.now += 10
    await cluster.stop(ATTEMPT, None)
    assert (await read(cluster))[0].endswith("SIGTERM received: a checkpoint is written\n")
    clock.now += 10
    with pytest.raises(NoLogs, match="not there"):
        await read(cluster)


@pytest.mark.parametrize(
    ("command", "written"),
    [
        ("sleep 5", ""),
        ("exit 3", ""),
        ("echo 'open", "sh: syntax error: a quote is not closed\n"),
        ("sleep soon", "sleep: invalid time interval: soon\n"),
    ],
)
async def test_a_command_without_a_program_writes_no_more_than_it_says(command: str, written: str) -> None:
    clock = Clock()
    cluster = await cluster_with(command, clock)
    clock.now += 1
    assert (await read(cluster))[0] == written


async def test_a_program_that_fails_says_so() -> None:
    clock = Clock()
    cluster = await cluster_with("python train.py --seconds 5; exit 4", clock)
    clock.now += 10
    assert (await read(cluster))[0].endswith("RuntimeError: it was told to end with 4\n")
