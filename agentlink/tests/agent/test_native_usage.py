"""From exporters' pages to figures of workloads: whose a GPU is, what is shared, and exporters that do not answer."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from unittest.mock import Mock
from uuid import UUID, uuid4

import pytest

from agentlink.agent import exporter
from agentlink.agent.backends.native import usage
from agentlink.agent.backends.native.usage import Exporter, GpuExporters, Holder, summed, trim
from agentlink.protocol import UsageFigure
from agentlink.tests.agent.exporters import MEMORY, POWER, SM, TENSOR, UTIL, gpu, page

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
TRAIN, OTHER = uuid4(), uuid4()
HOLDERS = {
    "nlp/train-0": Holder(TRAIN, "n1"),
    "nlp/train-1": Holder(TRAIN, "n2"),
    "nlp/other-0": Holder(OTHER, "n1"),
}


def figures(pages: Mapping[str, str], holders: Mapping[str, Holder] = HOLDERS) -> dict[UUID, UsageFigure]:
    told = summed(((node, exporter.read(text)) for node, text in pages.items()), holders, NOW)
    return {figure.workload: figure for figure in told}


def test_a_workload_is_the_mean_of_its_gpus_and_the_sum_of_their_memory_and_power() -> None:
    found = figures(
        {
            "n1": page(
                (gpu(0, "train-0"), {SM: 0.9, TENSOR: 0.5, MEMORY: 1000, POWER: 400.4}),
                (gpu(1, "train-0"), {SM: 0.6, TENSOR: 0.1, MEMORY: 2000, POWER: 300.4}),
                (gpu(2, "other-0"), {UTIL: 4, MEMORY: 7}),
                (gpu(3), {UTIL: 0, MEMORY: 1, POWER: 70}),
            ),
            "n2": page((gpu(8, "train-1"), {SM: 0.029, MEMORY: 500, POWER: 80.0})),
        }
    )
    assert found[TRAIN] == UsageFigure(
        workload=TRAIN,
        at=NOW,
        utilisation_percent=50,
        tensor_percent=30,
        memory_mib=3500,
        power_watts=781,
        devices={gpu(0)["UUID"]: 90, gpu(1)["UUID"]: 60, gpu(8)["UUID"]: 2},
    )
    other = found[OTHER]
    assert (other.utilisation_percent, other.tensor_percent, other.power_watts) == (4, None, None)


def test_what_pods_share_of_a_gpu_is_divided_among_them() -> None:
    shared = {UTIL: 80, MEMORY: 4000, POWER: 300}
    found = figures(
        {
            "n1": page(
                (gpu(0, "train-0"), shared),
                (gpu(0, "other-0"), shared),
                (gpu(1, "train-0"), {UTIL: 20, MEMORY: 100, POWER: 100}),
            )
        }
    )
    assert (found[OTHER].utilisation_percent, found[OTHER].memory_mib, found[OTHER].power_watts) == (
        80,
        2000,
        150,
    )
    # Half of a GPU at 80 %, a whole one at 20 %.
    assert (found[TRAIN].utilisation_percent, found[TRAIN].memory_mib) == (40, 2100)


def test_the_power_of_a_gpu_is_divided_among_its_mig_instances_also_those_that_nobody_has() -> None:
    found = figures(
        {
            "n1": page(
                (gpu(0, "train-0", mig="1"), {SM: 0.5, MEMORY: 900, POWER: 300}),
                (gpu(0, "other-0", mig="2"), {SM: 0.1, MEMORY: 100, POWER: 300}),
                (gpu(0, mig="3"), {SM: 0, MEMORY: 0, POWER: 300}),
            )
        }
    )
    assert (found[TRAIN].power_watts, found[TRAIN].memory_mib, found[OTHER].power_watts) == (100, 900, 100)


def test_an_exporter_is_believed_of_pods_on_its_own_node_only() -> None:
    lie = page((gpu(0, "train-0"), {UTIL: 0}), (gpu(1, "nobody"), {UTIL: 50}))
    assert figures({"n2": lie}) == {}


def test_a_gpu_of_which_nobody_knows_how_busy_it_is_is_no_figure() -> None:
    assert figures({"n1": page((gpu(0, "train-0"), {MEMORY: 900}))}) == {}


# Asking


@asynccontextmanager
async def answering(
    answer: Callable[[], bytes], host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[int]:
    """Serve an answer to every request; yield the port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, host, port)
    async with server:
        yield server.sockets[0].getsockname()[1]


def http(body: str, status: str = "200 OK") -> bytes:
    content = body.encode()
    return (
        f"HTTP/1.1 {status}\r\nContent-Length: {len(content)}\r\nConnection: close\r\n\r\n".encode() + content
    )


TRAIN_PAGE = page((gpu(0, "train-0"), {SM: 0.9, MEMORY: 1000}))


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@asynccontextmanager
async def asking(
    port: int, *exporters: Exporter, users: tuple[str, ...] = (), clock: Callable[[], float] = time.monotonic
) -> AsyncIterator[GpuExporters]:
    use = GpuExporters(Mock(), holders=lambda: HOLDERS, users=lambda: users, port=port, clock=clock)
    use._found[0].items = {f"gpu-operator/{number}": each for number, each in enumerate(exporters)}
    async with use:
        yield use


AT_N1 = Exporter("gpu-operator", "n1", "127.0.0.1")


async def test_who_answers_is_heard_whoever_does_not() -> None:
    dead = Exporter("gpu-operator", "n2", "::1")
    async with answering(lambda: http(TRAIN_PAGE)) as port, asking(port, AT_N1, dead) as use:
        assert [figure.workload for figure in await use.figures()] == [TRAIN]


async def test_only_nodes_with_pods_of_ours_are_asked_and_never_a_users_pod() -> None:
    asked: list[int] = []

    def answer() -> bytes:
        asked.append(1)
        return http(TRAIN_PAGE)

    idle, pretender = Exporter("gpu-operator", "n9", "127.0.0.1"), Exporter("nlp", "n1", "127.0.0.1")
    async with answering(answer) as port, asking(port, idle, pretender, users=("nlp",)) as use:
        assert await use.figures() == []
    assert asked == []


async def test_many_are_asked_every_other_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "MANY", 1)
    async with answering(lambda: http(TRAIN_PAGE)) as port, asking(port, AT_N1) as use:
        assert [len(await use.figures()) for _ in range(4)] == [0, 1, 0, 1]


@pytest.mark.parametrize(
    "wrong",
    [http("no", "500 Internal Server Error"), http("", "302 Found"), b"nonsense\r\n\r\n", b""],
)
async def test_an_exporter_that_fails_is_left_alone_for_a_while_and_then_heard_again(
    wrong: bytes, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    answers = [wrong, http(TRAIN_PAGE)]
    async with answering(lambda: answers.pop(0)) as port, asking(port, AT_N1, clock=clock) as use:
        assert await use.figures() == []
        clock.now += usage.FIRST_PAUSE_SECONDS - 1
        assert await use.figures() == []
        assert len(answers) == 1
        clock.now += 2
        assert [figure.workload for figure in await use.figures()] == [TRAIN]
    said = [record.message for record in caplog.records]
    assert len(said) == 2
    assert "does not answer" in said[0]
    assert "answers again" in said[1]


async def test_pauses_grow_up_to_a_bound(clock: Clock) -> None:
    async with asking(1, clock=clock) as use:
        pauses = []
        for _ in range(12):
            use._leave_alone(AT_N1, TimeoutError())
            pauses.append(use._silent[AT_N1].until - clock.now)
    assert pauses[:3] == [45, 90, 180]
    assert set(pauses[4:]) == {600}


async def test_an_exporter_that_never_ends_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "MOST_BYTES", len(TRAIN_PAGE))
    endless = http(TRAIN_PAGE + "#" * 10_000_000)
    async with answering(lambda: endless) as port, asking(port, AT_N1) as use:
        assert [figure.workload for figure in await use.figures()] == [TRAIN]


async def test_an_exporter_that_does_not_speak_costs_its_time_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(usage, "ANSWER_SECONDS", 0.1)
    silent = asyncio.Event()

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await silent.wait()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        async with asking(server.sockets[0].getsockname()[1], AT_N1) as use:
            async with asyncio.timeout(60):
                assert await use.figures() == []
        silent.set()


def pod(**status: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "gpu-operator", "name": "dcgm-1"},
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Running", "podIP": "10.0.0.7"} | status,
    }


def test_pods_are_asked_while_they_run() -> None:
    assert trim(pod()) == Exporter("gpu-operator", "n1", "10.0.0.7")
    assert trim(pod(phase="Pending")) is None
    assert trim(pod(podIP="")) is None
    going = pod()
    going["metadata"]["deletionTimestamp"] = "2026-03-02T12:00:00Z"
    assert trim(going) is None
