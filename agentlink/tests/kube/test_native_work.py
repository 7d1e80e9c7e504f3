"""Keys are looked after one by one each, several at once; what fails disturbs nobody else."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from agentlink.agent.backends.native import work as module
from agentlink.agent.backends.native.work import Work
from agentlink.agent.kube.errors import Forbidden, ObjectConflict, Unreachable
from agentlink.tests.agents import running


@pytest.fixture(autouse=True)
async def _quick(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    monkeypatch.setattr(module, "FIRST_PAUSE_SECONDS", 0.01)
    async with asyncio.timeout(60):
        yield


async def test_a_key_that_is_added_while_it_is_in_hand_comes_once_more_after_that() -> None:
    began, go_on = asyncio.Event(), asyncio.Event()
    done: list[str] = []

    async def act(key: str) -> None:
        began.set()
        await go_on.wait()
        done.append(key)

    work = Work(act)
    async with running(work.run()):
        work.add("a")
        await began.wait()
        for _ in range(3):
            work.add("a")
        assert done == []
        go_on.set()
        while len(done) < 2:
            await asyncio.sleep(0)
        await asyncio.sleep(0.02)
    assert done == ["a", "a"]


async def test_others_go_on_while_one_fails_and_it_comes_again() -> None:
    calls: Counter[str] = Counter()
    done = asyncio.Event()
    errors = [Unreachable(0, message="No answer."), ObjectConflict(409), ValueError("a bug")]

    async def act(key: str) -> None:
        calls[key] += 1
        if key == "bad" and errors:
            raise errors.pop()
        if calls["bad"] == 4 and calls["good"] == 1:
            done.set()

    work = Work(act)
    async with running(work.run()):
        work.add("bad")
        work.add("good")
        await done.wait()
    assert calls == {"bad": 4, "good": 1}


async def test_a_key_comes_again_when_its_act_asks_for_it_unless_it_is_added_before() -> None:
    times: list[float] = []
    done = asyncio.Event()

    async def act(_: str) -> float | None:
        times.append(asyncio.get_running_loop().time())
        if len(times) == 3:
            done.set()
        return {1: 60.0, 2: 0.05}.get(len(times))

    work = Work(act)
    async with running(work.run()):
        work.add("a")
        while not times:
            await asyncio.sleep(0)
        work.add("a")
        await done.wait()
    assert times[2] - times[1] >= 0.04


async def test_an_api_server_that_is_not_reached_is_one_line_for_all_keys(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls: Counter[str] = Counter()
    done = asyncio.Event()

    async def act(key: str) -> None:
        calls[key] += 1
        if calls[key] <= 3:
            raise Unreachable(0, message="No answer.")
        if len(calls) == 8 and min(calls.values()) > 3:
            done.set()

    work = Work(act)
    async with running(work.run()):
        for key in "abcdefgh":
            work.add(key)
        await done.wait()
    assert len(caplog.records) == 1
    assert "No answer. Trying again " in caplog.text


async def test_what_fails_again_and_again_is_said_ever_more_seldom(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONGEST_PAUSE_SECONDS", 0.01)
    calls: list[str] = []
    done = asyncio.Event()

    async def act(key: str) -> None:
        calls.append(key)
        if len(calls) == 10:
            done.set()
            return
        raise Forbidden(403, message="May not.")

    work = Work(act)
    async with running(work.run()):
        work.add("a")
        await done.wait()
    assert len(caplog.records) == 4  # the first, second, fourth and eighth
