import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agentlink.agent.kube import reflector
from agentlink.agent.kube.access import load
from agentlink.agent.kube.client import Kube
from agentlink.agent.kube.reflector import Reflector
from agentlink.agent.kube.resources import PODS, RESOURCE_SLICES, SERVICES, JsonObject
from agentlink.tests.kube.wires import Answer, Scripted, refusal, scripted, wired
from rig.namespaces import Namespace

Changes = list[tuple[str, str | None, str | None]]


def colour(body: JsonObject) -> str | None:
    """Return what is kept of an object: its colour, nothing where it has none."""
    found: str | None = body["metadata"].get("labels", {}).get("colour")
    return found


@asynccontextmanager
async def reflecting(
    kube: Kube, resource: Any = SERVICES, **how: Any
) -> AsyncIterator[tuple[Reflector[str], Changes]]:
    """Give a reflector that runs within the block, and what it told of changes."""
    changes: Changes = []
    made = Reflector(
        kube, resource, colour, on_change=lambda key, old, new: changes.append((key, old, new)), **how
    )
    running = asyncio.create_task(made.run())
    try:
        yield made, changes
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.01)


def thing(name: str, version: int, kind: str = "") -> JsonObject:
    metadata = {"name": name, "resourceVersion": str(version), "labels": {"colour": kind or name}}
    return {"metadata": metadata}


def listing(version: int, *items: JsonObject, following: str = "") -> Answer:
    return Answer(
        {"metadata": {"resourceVersion": str(version), "continue": following}, "items": list(items)}
    )


def told(kind: str, body: JsonObject) -> JsonObject:
    return {"type": kind, "object": body}


def watched_from(server: Scripted) -> list[str]:
    """Return what each request watched from; empty for a list."""
    return [asked.get("resourceVersion", "") for _, asked in server.asked]


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "FIRST_PAUSE_SECONDS", 0.01)


@pytest.mark.kube
async def test_what_is_in_the_cluster_is_kept_and_followed_through_an_outage(
    namespace: Namespace, tmp_path: Path
) -> None:
    async with wired(namespace.kubeconfig, tmp_path) as (wire, kubeconfig), Kube(load(kubeconfig)) as kube:
        service = {"spec": {"clusterIP": "None"}}
        async with Kube(load(namespace.kubeconfig)) as other:

            async def paint(name: str, kind: str) -> None:
                metadata = {"name": name, "labels": {"colour": kind}}
                await other.apply(SERVICES, {"metadata": metadata, **service}, namespace.name)

            await paint("one", "red")
            await paint("two", "blue")
            async with reflecting(kube, namespace=namespace.name) as (made, changes):
                await made.synced.wait()
                one, two = f"{namespace.name}/one", f"{namespace.name}/two"
                assert made.items == {one: "red", two: "blue"}
                await paint("one", "green")
                await until(lambda: made.items[one] == "green")
                wire.cut()
                await until(lambda: made.error is not None)
                await other.delete(SERVICES, "two", namespace.name)
                await paint("one", "black")
                wire.mend()
                await until(lambda: made.items == {one: "black"})
                assert made.error is None
    assert changes[:3] == [(one, None, "red"), (two, None, "blue"), (one, "red", "green")]
    assert sorted(changes[3:]) == [(one, "green", "black"), (two, "blue", None)]


async def test_a_version_that_is_gone_has_all_listed_anew_and_what_went_meanwhile_is_told() -> None:
    gone = told("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})
    answers = (
        listing(10, thing("a", 3), thing("b", 4)),
        Answer([told("MODIFIED", thing("a", 11, "x")), gone]),
        listing(20, thing("b", 4), thing("c", 15)),
    )
    async with scripted(*answers) as server, Kube(server.access) as kube, reflecting(kube) as (made, changes):
        await until(lambda: len(server.asked) == 4)
        assert made.items == {"b": "b", "c": "c"}
    assert watched_from(server) == ["", "10", "", "20"]
    assert changes[2:] == [("a", "a", "x"), ("c", None, "c"), ("a", "x", None)]


async def test_a_watch_that_ends_or_breaks_goes_on_from_the_latest_bookmark() -> None:
    answers = (
        listing(10, thing("a", 3)),
        Answer([told("BOOKMARK", {"metadata": {"resourceVersion": "30"}})]),
        Answer([told("ADDED", thing("b", 31))], breaks_off=True),
        Answer([told("DELETED", thing("a", 32)), b'{"type": "ADD'], breaks_off=True),
    )
    async with scripted(*answers) as server, Kube(server.access) as kube, reflecting(kube) as (made, _):
        await until(lambda: len(server.asked) == 5)
        assert made.items == {"b": "b"}
    assert watched_from(server) == ["", "10", "30", "31", "32"]


async def test_after_failures_in_a_row_the_version_is_doubted() -> None:
    unknown = Answer({}, status=504)
    answers = (listing(10, thing("a", 3)), *[unknown] * 4, listing(5))
    async with scripted(*answers) as server, Kube(server.access) as kube, reflecting(kube) as (made, _):
        await until(lambda: len(server.asked) == 7)
        assert made.items == {}
    assert watched_from(server) == ["", "10", "10", "10", "10", "", "5"]


async def test_what_is_not_kept_any_more_counts_as_gone_and_what_stays_the_same_is_no_change() -> None:
    plain = {"metadata": {"name": "a", "resourceVersion": "12"}}
    answers = (
        listing(10, thing("a", 3)),
        Answer([told("MODIFIED", thing("a", 11)), told("MODIFIED", plain)]),
    )
    async with scripted(*answers) as server, Kube(server.access) as kube, reflecting(kube) as (made, changes):
        await until(lambda: len(server.asked) == 3)
        assert made.items == {}
    assert changes == [("a", None, "a"), ("a", "a", None)]


async def test_pages_that_are_forgotten_before_they_are_read_are_read_again_from_the_first() -> None:
    answers = (
        listing(10, thing("a", 3), following="more"),
        refusal(410, "Expired"),
        listing(20, thing("b", 3), following="more"),
        listing(20, thing("c", 4)),
    )
    async with scripted(*answers) as server, Kube(server.access) as kube, reflecting(kube) as (made, _):
        await made.synced.wait()
        assert made.items == {"b": "b", "c": "c"}
        await until(lambda: len(server.asked) == 5)
    assert watched_from(server)[-1] == "20"


async def test_a_kind_that_the_api_server_does_not_know_may_be_optional(
    caplog: pytest.LogCaptureFixture,
) -> None:
    unknown = Answer([b"404 page not found"], status=404)
    async with (
        scripted(unknown) as server,
        Kube(server.access) as kube,
        reflecting(kube, RESOURCE_SLICES, optional=True) as (made, _),
    ):
        await made.synced.wait()
        assert made.items == {}
    assert not caplog.records


async def test_what_is_optional_and_forbidden_again_and_again_counts_as_none() -> None:
    answers = [refusal(403, "Forbidden") for _ in range(4)]
    async with (
        scripted(*answers, listing(10, thing("a", 3))) as server,
        Kube(server.access) as kube,
        reflecting(kube, RESOURCE_SLICES, optional=True) as (made, _),
    ):
        await made.synced.wait()
        assert len(server.asked) >= 3
        assert made.items == {}
        await until(lambda: made.items == {"a": "a"})


async def test_what_is_optional_and_stays_forbidden_is_asked_for_seldom(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reflector, "FIRST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(reflector, "MOST_FORBIDDEN", 3)
    answers = [refusal(403, "Forbidden") for _ in range(100)]
    async with (
        scripted(*answers) as server,
        Kube(server.access) as kube,
        reflecting(kube, RESOURCE_SLICES, optional=True) as (made, _),
    ):
        await made.synced.wait()
        await asyncio.sleep(0.2)
        assert len(server.asked) == 3


async def test_an_object_that_cannot_be_read_stays_as_it_was_and_stops_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    odd = {"metadata": {"name": "a", "resourceVersion": "11", "labels": None}}
    answers = (listing(10, thing("a", 3)), Answer([told("MODIFIED", odd), told("ADDED", thing("b", 12))]))
    async with scripted(*answers) as server, Kube(server.access) as kube, reflecting(kube) as (made, _):
        await until(lambda: len(server.asked) == 3)
        assert made.items == {"a": "a", "b": "b"}
    assert "Service a cannot be read." in caplog.text


async def test_without_the_right_to_read_it_is_not_synced_and_says_why(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reflector, "FIRST_PAUSE_SECONDS", 0.2)
    monkeypatch.setattr("random.uniform", lambda _, longest: longest)
    forbidden = refusal(403, "Forbidden", "pods is forbidden")
    answers = (forbidden, listing(10, thing("a", 3)))
    async with scripted(*answers) as server, Kube(server.access) as kube, reflecting(kube, PODS) as (made, _):
        await until(lambda: made.error is not None)
        assert not made.synced.is_set()
        await made.synced.wait()
        assert made.error is None
    assert "pods cannot be watched: pods is forbidden" in caplog.text


async def test_what_cannot_be_watched_is_said_once_and_that_it_can_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO", logger=reflector.__name__)
    monkeypatch.setattr(reflector, "FIRST_PAUSE_SECONDS", 0.01)
    forbidden = refusal(403, "Forbidden", "pods is forbidden")
    answers = (forbidden, forbidden, forbidden, listing(10, thing("a", 3)))
    async with scripted(*answers) as server, Kube(server.access) as kube, reflecting(kube, PODS) as (made, _):
        await made.synced.wait()
    first, last = [record.getMessage() for record in caplog.records]
    assert first.startswith("pods cannot be watched: pods is forbidden")
    assert last == "pods can be watched again."
