"""Each kind of stream ends by each kind of loss: what was taken away is shown to nobody who had it open."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
import websockets
from django.test import AsyncRequestFactory, Client
from django.utils import timezone

from agentlink.agent.runner import run_agent
from agentlink.logs import viewing
from agentlink.tests.agents import admit, devices_of, in_database, make_token, nodes, running, serving, until
from agentlink.tests.conftest import Place, place
from agentlink.tests.logs.conftest import Scripted
from chamber import consumers, requirement, sessions, standing
from chamber.models import ApiToken, Scope, User
from chamber.people import actions as people
from chamber.people.export import begin_export
from chamber.services import actions as services
from chamber.tokens import TokenRequest, create_token, revoke_token
from teams import actions, trail
from teams.actors import Actor, Via
from teams.models import AuditEvent, Binding, Role
from teams.tests.factories import bind, make_team
from teams.views.audit import sent, written_while_sent
from tests.role_world import URLS
from tests.ways_in import SOCKETS, Needs
from tests.ways_in import STREAMS as OF_TABLE
from workloads import watch as watching
from workloads.models import Status, Workload

__all__ = ["place"]

pytestmark = pytest.mark.django_db(transaction=True)

SYSTEM = Actor.system("test")
PHRASE = "rotor glade mosaic 41"
STREAMS = ("watch/", "logs/?follow=1")


class Reader:
    """Somebody who has streams open, by a session or a token, both signed in once."""

    def __init__(self, user: User) -> None:
        user.set_password(PHRASE)
        user.save()
        self.user = user
        token, self.secret = create_token(user=user, name="test", scope=Scope.READ, days=1)
        self.token_id = token.pk
        self.browser, other = Client(), Client()
        for client in (self.browser, other):
            assert client.post("/sign-in/", {"login": user.username, "password": PHRASE}).status_code == 302
        # The password is changed in another session: the present one is given its new hash.
        self.cookie, self.other = self.browser.cookies["sessionid"].value, other

    def headers(self, door: str) -> dict[str, str]:
        held = (
            {"Cookie": f"sessionid={self.cookie}"}
            if door == "session"
            else {"Authorization": f"Bearer {self.secret}"}
        )
        return {**held, "Accept": "text/event-stream"}


def require_second_factor() -> None:
    """Have everybody need one at once, and open pages told, as a duty does."""
    actions.require_second_factor(by=SYSTEM, version=0, required=True, grace_days=0)
    requirement.tell(timezone.now())


class Program:
    """Something that has streams open by a token of a service account of the team."""

    def __init__(self, place: Place) -> None:
        self.account = services.create_service(by=SYSTEM, name="ci", team=place.team, role=Role.VIEWER)
        wanted = TokenRequest("runner", Scope.READ)
        self.token, self.secret = services.make_token(by=SYSTEM, account=self.account, wanted=wanted)
        self.elsewhere = make_team(place.team.parent or place.team, "Elsewhere")

    def headers(self, door: str) -> dict[str, str]:  # noqa: ARG002 - there is one
        return {"Authorization": f"Bearer {self.secret}", "Accept": "text/event-stream"}

    def archive_its_team(self) -> None:
        """Have it belong to a team that is archived: its own has something running."""
        services.change_service(by=SYSTEM, account=self.account, team=self.elsewhere)
        actions.archive_team(by=SYSTEM, team=self.elsewhere)


LOSSES: dict[str, dict[str, Callable[[Any], object]]] = {
    "session": {
        "signed out": lambda reader: reader.browser.post("/sign-out/"),
        "session ended": lambda reader: sessions.end(sessions.of(reader.user)),
        "password changed": lambda reader: reader.browser.post(
            "/settings/password/", {"oldpassword": PHRASE, "password1": PHRASE * 2, "password2": PHRASE * 2}
        ),
        "disabled": lambda reader: people.disable(by=SYSTEM, user=reader.user),
        "role lost": lambda reader: actions.remove_member(
            by=SYSTEM, binding=Binding.objects.get(user=reader.user)
        ),
        "second factor required": lambda _: require_second_factor(),
    },
    "service": {
        "revoked": lambda program: services.revoke_token(by=SYSTEM, token=program.token),
        "rotated": lambda program: services.rotate_token(by=SYSTEM, token=program.token, overlap_minutes=0),
        "disabled": lambda program: services.disable_service(by=SYSTEM, account=program.account),
        "team archived": lambda program: program.archive_its_team(),
        "role lost": lambda program: actions.remove_member(
            by=SYSTEM, binding=Binding.objects.get(user=program.account.user)
        ),
    },
    "token": {
        "revoked": lambda reader: revoke_token(user=reader.user, token_id=reader.token_id),
        "disabled": lambda reader: people.disable(by=SYSTEM, user=reader.user),
        "role lost": lambda reader: actions.remove_member(
            by=SYSTEM, binding=Binding.objects.get(user=reader.user)
        ),
        "second factor required": lambda _: require_second_factor(),
    },
}


WALKED = {
    "test_every_stream_ends_by_every_loss": {"api-workload-watch", "api-workload-logs", "ws/live/"},
    "test_an_export_of_the_trail_ends_for_whom_may_not_read_it_any_more": {
        "api-audit-export",
        "chamber:audit-export",
    },
    "test_an_export_of_a_person_ends_for_whom_may_not_read_it_any_more": {
        "api-person-export",
        "chamber:person-export",
        "chamber:export-own",
    },
}
"""Which test walks the losses of which stream or socket of a person, by its name in the table of roles."""


def test_every_kind_of_stream_and_socket_is_walked_by_a_test_of_here() -> None:
    walked = [name for names in WALKED.values() for name in names]
    of_people = {name for name, needs in SOCKETS.items() if needs is not Needs.AGENT}
    assert sorted(walked) == sorted(OF_TABLE | of_people)
    assert all(callable(globals().get(test)) for test in WALKED)


def test_the_walk_of_losses_opens_what_it_says() -> None:
    opened = {str(URLS[name].pattern) for name in WALKED["test_every_stream_ends_by_every_loss"] & OF_TABLE}
    assert opened == {f"workloads/<slug:slug>/{path.partition('?')[0]}" for path in STREAMS}


async def follow(url: str, path: str, headers: dict[str, str], begun: asyncio.Event) -> None:
    """Read a stream until it ends."""
    async with (
        httpx.AsyncClient(base_url=url, headers=headers, timeout=60) as client,
        client.stream("GET", path) as response,
    ):
        assert response.status_code == 200
        async for _ in response.aiter_lines():
            begun.set()


async def hear(url: str, reader: Reader, begun: asyncio.Event) -> None:
    """Hold the socket of a page until it is closed as signed out."""
    headers = {"Cookie": f"sessionid={reader.cookie}", "Origin": url}
    address = f"{url.replace('http', 'ws')}/ws/live/"
    async with websockets.connect(address, additional_headers=headers, proxy=None) as socket:
        await socket.send('{"watch": ["teams"]}')
        with contextlib.suppress(websockets.ConnectionClosed):
            async for _ in socket:
                begun.set()
        assert socket.close_code == consumers.SIGNED_OUT


@contextlib.asynccontextmanager
async def open_streams(
    place: Place, reader: Reader | Program, door: str, *, socket: bool
) -> AsyncIterator[list["asyncio.Task[None]"]]:
    """Have a running workload's events and log followed, and by a session the socket of a page."""
    cluster = Scripted(nodes(2))
    secret = await in_database(make_token, place.cluster)
    async with serving() as url, running(run_agent(url, secret, cluster)):

        def work() -> Workload:
            devices = devices_of(place.cluster, "n1")[:1]
            return admit(place.team, place.owner, place.pool, place.cluster, devices).workload

        workload = await in_database(work)
        await until(lambda: Workload.objects.get(pk=workload.pk).status == Status.RUNNING)
        cluster.written[0].say("one")
        paths = [f"/api/v1/workloads/{workload.slug}/{part}" for part in STREAMS]
        begun = [asyncio.Event() for _ in range(len(paths) + socket)]
        headers = reader.headers(door)
        tasks = [
            asyncio.create_task(follow(url, path, headers, event))
            for path, event in zip(paths, begun, strict=False)
        ]
        if socket and isinstance(reader, Reader):
            tasks.append(asyncio.create_task(hear(url, reader, begun[-1])))
        async with asyncio.timeout(60):
            for event in begun:
                await event.wait()
        try:
            yield tasks
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize(
    ("door", "loss"), [(door, loss) for door, losses in LOSSES.items() for loss in losses]
)
async def test_every_stream_ends_by_every_loss(
    place: Place, monkeypatch: pytest.MonkeyPatch, door: str, loss: str
) -> None:
    for module in (viewing, watching):
        monkeypatch.setattr(module, "CHECK_SECONDS", 0.1)
    monkeypatch.setattr(viewing, "FIRST_ASK_SECONDS", 0.1)
    monkeypatch.setattr(viewing, "ASK_SECONDS", 0.2)
    reader: Any = await (
        in_database(Program, place) if door == "service" else in_database(Reader, place.owner)
    )
    # A socket carries no data; of what one may no longer see it hears nothing (chamber.tests.test_consumers).
    socket = door == "session" and loss != "role lost"
    async with open_streams(place, reader, door, socket=socket) as tasks:
        assert not any(task.done() for task in tasks)
        if loss == "password changed":
            reader.browser = reader.other
        await in_database(LOSSES[door][loss], reader)
        async with asyncio.timeout(60):
            await asyncio.gather(*tasks)


@pytest.mark.parametrize("door", ["session", "token"])
async def test_an_export_of_the_trail_ends_for_whom_may_not_read_it_any_more(
    place: Place, monkeypatch: pytest.MonkeyPatch, door: str
) -> None:
    monkeypatch.setattr(trail, "EXPORTED_AT_ONCE", 1)
    reader = await in_database(Reader, place.owner)
    await in_database(lambda: bind(reader.user, place.team, Role.ADMIN))
    for name in ("one", "two", "three"):
        await in_database(lambda name=name: actions.create_team(by=SYSTEM, parent=place.team, name=name))
    request = AsyncRequestFactory().get("/settings/audit/export/")
    held: dict[str, Any] = (
        {"session_key": reader.cookie}
        if door == "session"
        else {"token": await in_database(ApiToken.objects.get)}
    )
    rows = AuditEvent.objects.filter(action="team.created")
    answer: Any = sent(request, rows, standing.StreamStanding(reader.user.pk, **held))
    lines = aiter(answer)
    assert [await anext(lines) for _ in range(2)][1].count(b"\r\n") == 1
    await in_database(lambda: people.disable(by=SYSTEM, user=reader.user))
    assert [each async for each in lines] == []


@pytest.mark.parametrize("door", ["session", "token"])
async def test_an_export_of_a_person_ends_for_whom_may_not_read_it_any_more(
    place: Place, monkeypatch: pytest.MonkeyPatch, door: str
) -> None:
    reader = await in_database(Reader, place.owner)
    request = AsyncRequestFactory().post("/settings/export/")
    held: dict[str, Any] = (
        {"session_key": reader.cookie}
        if door == "session"
        else {"token": await in_database(ApiToken.objects.get)}
    )
    written = await in_database(
        lambda: begin_export(by=Actor.person(reader.user, Via.PAGE), user=reader.user)
    )
    still = standing.StreamStanding(reader.user.pk, **held)
    answer: Any = written_while_sent(
        request, written, still, lambda _: True, name="x", kind="application/json"
    )
    lines = aiter(answer)
    assert b"profile" in await anext(lines)
    await in_database(lambda: people.disable(by=SYSTEM, user=reader.user))
    assert [each async for each in lines] == []


def test_a_stream_looks_often_enough_to_end_within_five_seconds() -> None:
    assert standing.CHECK_SECONDS + watching.LOOK_EVERY_SECONDS < 5
