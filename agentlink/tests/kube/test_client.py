import asyncio
import json
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from pathlib import Path

import httpx
import pytest
from kubernetes.client import Configuration

from agentlink.agent.kube import client
from agentlink.agent.kube.access import Access, load
from agentlink.agent.kube.client import Kube
from agentlink.agent.kube.errors import (
    AlreadyExists,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    ObjectConflict,
    Throttled,
    Unauthorised,
    Unreachable,
)
from agentlink.agent.kube.resources import JOBS, NAMESPACES, PODS, SERVICES, JsonObject, Resource
from agentlink.agent.kube.streams import split_lines
from agentlink.tests.kube.wires import Answer, Listener, refusal, scripted, wired
from rig.namespaces import Namespace

SERVICE: JsonObject = {"metadata": {"name": "one"}, "spec": {"clusterIP": "None", "selector": {"a": "b"}}}
FINE = Answer({"metadata": {"resourceVersion": "7"}, "items": []})


# Errors, on a real API server


@pytest.mark.kube
async def test_what_the_api_server_refuses_is_told_by_kind(namespace: Namespace) -> None:
    async with Kube(load(namespace.kubeconfig)) as kube:
        made = await kube.create(SERVICES, SERVICE, namespace.name)
        stale = {**made, "metadata": {**made["metadata"], "resourceVersion": "1"}}
        nothing = Resource("no.such.group", "v1", "things", "Thing")
        for expected, attempt in (
            (AlreadyExists, kube.create(SERVICES, SERVICE, namespace.name)),
            (ObjectConflict, kube.replace(SERVICES, stale, namespace.name)),
            (ObjectConflict, kube.delete(SERVICES, "one", namespace.name, uid="another")),
            (Invalid, kube.create(JOBS, {"metadata": {"name": "x"}}, namespace.name)),
            (NotFound, kube.get(SERVICES, "two", namespace.name)),
            (NotFound, kube.get(nothing, "two", namespace.name)),
            (NotFound, kube.create(SERVICES, SERVICE, "no-such-namespace")),
        ):
            with pytest.raises(expected) as refused:
                await attempt
            assert type(refused.value) is expected
            assert refused.value.message
    assert refused.value.message == 'namespaces "no-such-namespace" not found'


@pytest.mark.kube
async def test_a_service_account_without_a_role_is_forbidden_and_a_wrong_token_is_unauthorised(
    namespace: Namespace, tmp_path: Path
) -> None:
    path = f"/api/v1/namespaces/{namespace.name}/serviceaccounts/default/token"
    token = namespace.admin.request("POST", path, {"spec": {}})["status"]["token"]
    for expected, used in ((Forbidden, token), (Unauthorised, "wrong")):
        kubeconfig = with_user(namespace.kubeconfig, tmp_path, {"token": used})
        async with Kube(load(kubeconfig)) as kube:
            with pytest.raises(expected):
                await kube.get(NAMESPACES, "kube-system")


@pytest.mark.kube
async def test_credentials_of_a_plugin_are_asked_for_anew_when_they_are_refused(
    namespace: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentlink.agent.kube.access.LOAD_AGAIN_SECONDS", 0.0)
    token = json.loads(namespace.kubeconfig.read_text())["users"][0]["user"]["token"]
    said = tmp_path / "said"
    version = "client.authentication.k8s.io/v1"
    said.write_text(json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": {"token": "old"}}))
    plugin = {"apiVersion": version, "command": "cat", "args": [str(said)], "interactiveMode": "Never"}
    async with Kube(load(with_user(namespace.kubeconfig, tmp_path, {"exec": plugin}))) as kube:
        with pytest.raises(Unauthorised):
            await kube.get(NAMESPACES, namespace.name)
        said.write_text(said.read_text().replace("old", token))
        found = await kube.get(NAMESPACES, namespace.name)
    assert found["metadata"]["name"] == namespace.name


@pytest.mark.kube
async def test_a_token_of_a_file_is_read_anew_when_it_is_refused(
    namespace: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentlink.agent.kube.access.LOAD_AGAIN_SECONDS", 0.0)
    token = tmp_path / "token"
    token.write_text("expired")
    async with Kube(load(with_user(namespace.kubeconfig, tmp_path, {"tokenFile": str(token)}))) as kube:
        token.write_text(json.loads(namespace.kubeconfig.read_text())["users"][0]["user"]["token"])
        assert (await kube.get(NAMESPACES, namespace.name))["kind"] == "Namespace"


def with_user(kubeconfig: Path, folder: Path, user: JsonObject) -> Path:
    """Return a kubeconfig for the same cluster with other credentials."""
    told = json.loads(kubeconfig.read_text())
    told["users"][0]["user"] = user
    path = folder / "user.kubeconfig"
    path.write_text(json.dumps(told))
    return path


# Objects, on a real API server


@pytest.mark.kube
async def test_objects_are_written_listed_in_pages_watched_and_deleted(
    namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PAGE", 2)
    async with Kube(load(namespace.kubeconfig)) as kube:
        for number in range(5):
            labels = {"even": str(number % 2 == 0)}
            body = {**SERVICE, "metadata": {"name": f"s{number}", "labels": labels}}
            await kube.apply(SERVICES, body, namespace.name)
        before = kube.requests
        everything = await kube.list(SERVICES, namespace.name)
        assert [body["metadata"]["name"] for body in everything.items] == ["s0", "s1", "s2", "s3", "s4"]
        assert kube.requests == before + 3
        even = await kube.list(SERVICES, namespace.name, labels="even=True", fields="metadata.name!=s0")
        assert [body["metadata"]["name"] for body in even.items] == ["s2", "s4"]
        await kube.patch(SERVICES, "s0", {"metadata": {"labels": {"even": "no"}}}, namespace.name)
        await kube.delete(SERVICES, "s4", namespace.name, uid=everything.items[4]["metadata"]["uid"])
        async with aclosing(kube.watch(SERVICES, everything.version, namespace.name, seconds=1)) as events:
            seen = [(kind, body["metadata"].get("name")) async for kind, body in events]
    assert seen[:2] == [("MODIFIED", "s0"), ("DELETED", "s4")]


# Patience


async def test_a_throttled_client_waits_as_long_as_it_is_told_with_all_its_requests() -> None:
    busy = refusal(429, "TooManyRequests", retry_after="1")
    async with scripted(busy, FINE, FINE) as server, Kube(server.access) as kube:
        began = time.monotonic()
        first = asyncio.create_task(kube.list(PODS))
        while not server.asked:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        await kube.list(NAMESPACES)
        assert time.monotonic() - began > 0.99
        await first
    assert sorted(path for path, _ in server.asked) == [
        "/api/v1/namespaces",
        "/api/v1/pods",
        "/api/v1/pods",
    ]


async def test_a_request_is_made_again_when_the_connection_breaks_or_the_server_is_starting() -> None:
    cut = Answer([b'{"meta'], breaks_off=True)
    starting = refusal(503, "ServiceUnavailable")
    async with scripted(cut, starting, FINE) as server, Kube(server.access) as kube:
        assert (await kube.list(PODS)).version == "7"
        assert kube.requests == 3


async def test_patience_ends() -> None:
    answers = [refusal(429, "TooManyRequests", "too many", retry_after="1") for _ in range(3)]
    async with scripted(*answers) as server, Kube(server.access, patience_seconds=0.5) as kube:
        with pytest.raises(Throttled, match="too many"):
            await kube.list(PODS)
    async with Kube(server.access, patience_seconds=0.1) as kube:
        with pytest.raises(Unreachable, match=r"gave no answer: Connection refused[.]$"):
            await kube.list(PODS)


async def test_an_api_server_that_takes_too_long_is_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_TIMEOUT", httpx.Timeout(0.1).as_dict())
    async with (
        scripted(Answer({}, after_seconds=5.0)) as server,
        Kube(server.access, patience_seconds=0.0) as kube,
    ):
        with pytest.raises(Unreachable, match=r"^http://.* gave no answer in time[.]$"):
            await kube.list(PODS)


async def test_what_is_refused_for_good_is_not_asked_again() -> None:
    async with scripted(refusal(403, "Forbidden"), FINE) as server, Kube(server.access) as kube:
        with pytest.raises(Forbidden):
            await kube.list(PODS)
    assert len(server.asked) == 1


async def test_an_answer_that_is_no_status_is_an_error_with_its_words() -> None:
    async with scripted(Answer([b"404 page not found"], status=404)) as server, Kube(server.access) as kube:
        with pytest.raises(NotFound) as refused:
            await kube.list(PODS)
    assert (refused.value.reason, refused.value.message) == ("", "404 page not found")


async def test_no_more_requests_are_under_way_than_may_be_and_they_keep_their_pace() -> None:
    number = client.BURST + 40
    answers = (Answer({}, after_seconds=0.005) for _ in range(number))
    async with scripted(*answers) as server, Kube(server.access, at_once=3, a_second=100) as kube:
        began = time.monotonic()
        await asyncio.gather(*(kube.get(NAMESPACES, "x") for _ in range(number)))
        assert time.monotonic() - began > 0.38
    assert server.most_at_once == 3


async def test_a_request_that_is_cancelled_while_its_connection_is_made_leaves_nothing_open() -> None:
    async with Silent().listening() as server:
        configuration = Configuration(host=f"https://127.0.0.1:{server.port}")
        async with Kube(Access(lambda: configuration)) as kube:
            asking = asyncio.create_task(kube.get(NAMESPACES, "x"))
            await asyncio.wait_for(server.greeted.wait(), 60)
            asking.cancel()
            await asyncio.wait_for(server.left.wait(), 60)
            assert asking.cancelled()


class Silent(Listener):
    """A server that never answers, not even to agree on keys."""

    def __init__(self) -> None:
        super().__init__()
        self.greeted, self.left = asyncio.Event(), asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        while await reader.read(4096):
            self.greeted.set()
        self.left.set()


# Answers of whoever stands between


@pytest.mark.parametrize(
    "said", [b"<html>Sign in to the network</html>", b"[]", b""], ids=["a-page", "a-list", "nothing"]
)
async def test_what_is_no_object_of_an_api_server_is_one_that_cannot_be_reached(said: bytes) -> None:
    async with scripted(Answer([said] if said else [])) as server, Kube(server.access) as kube:
        with pytest.raises(Unreachable, match="is no object of an API server"):
            await kube.get(NAMESPACES, "x")


# Streams


@pytest.mark.kube
async def test_a_watch_that_is_cut_says_so(namespace: Namespace, tmp_path: Path) -> None:
    async with wired(namespace.kubeconfig, tmp_path) as (wire, kubeconfig), Kube(load(kubeconfig)) as kube:
        version = (await kube.list(SERVICES, namespace.name)).version
        async with aclosing(kube.watch(SERVICES, version, namespace.name)) as events:
            await kube.create(SERVICES, SERVICE, namespace.name)
            assert (await anext(events)).kind == "ADDED"
            wire.cut()
            with pytest.raises(Unreachable):
                await anext(events)


@pytest.mark.kube
async def test_requests_share_connections_however_many_watches_have_their_own(
    namespace: Namespace, tmp_path: Path
) -> None:
    async with (
        wired(namespace.kubeconfig, tmp_path) as (wire, kubeconfig),
        Kube(load(kubeconfig)) as kube,
        AsyncExitStack() as stack,
    ):
        await kube.create(SERVICES, SERVICE, namespace.name)
        for _ in range(12):
            watch = kube.watch(SERVICES, "0", namespace.name)
            await anext(await stack.enter_async_context(aclosing(watch)))
        for _ in range(20):
            await kube.get(NAMESPACES, namespace.name)
    assert wire.connections <= 12 + 2


async def test_a_refused_stream_is_an_error_like_any_other() -> None:
    refused = refusal(403, "Forbidden", "no logs for you")
    async with scripted(refused) as server, Kube(server.access) as kube:
        with pytest.raises(KubeError, match="no logs for you"):
            await anext(kube.lines("/logs", {}))


async def test_lines_are_put_together_and_very_long_ones_come_in_pieces() -> None:
    async def chunks() -> AsyncGenerator[bytes]:
        for chunk in (b"one\ntw", b"o\n", b"x" * 6, b"y" * 6, b"z\n\nend"):
            yield chunk

    lines = [line async for line in split_lines(chunks(), 10)]
    assert lines == [b"one\n", b"two\n", b"xxxxxxyyyyyy", b"z\n", b"\n", b"end"]
