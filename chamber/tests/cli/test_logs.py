"""`chamber logs`: lines to stdout, what is said about them to stderr, over broken streams, and its exit statuses."""

import json
from collections.abc import Iterator

import httpx
import pytest

from chamber.cli.commands import logs
from chamber.cli.status import Exit
from chamber.models import User
from chamber.tests.cli.conftest import Run
from teams.models import Team
from workloads.tests.factories import make_workload


@pytest.fixture(autouse=True)
def _signed_in(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAMBER_TOKEN", "chb_x")
    monkeypatch.setattr(logs, "FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(logs, "SETTLES_SECONDS", 0.01)


def lines(text: str, place: str = "", dropped: str = "") -> str:
    begin = f"id: {place}\n" if place else ""
    return f"{begin}event: lines\ndata: {json.dumps({'text': text, 'dropped': dropped})}\n\n"


def note(code: str, message: str = "", kind: str = "note") -> str:
    return f"event: {kind}\ndata: {json.dumps({'code': code, 'message': message})}\n\n"


def end(code: str = "ended", message: str = "") -> str:
    return note(code, message, "end")


NOT_YET = httpx.Response(409, json={"detail": "bert is Pending: it has had no pods yet."})


class Server:
    """Answers streams in their order, and questions for the status; the last status stays."""

    def __init__(self, streams: list[httpx.Response | list[str]], statuses: list[str]) -> None:
        self.streams, self.statuses = streams, statuses
        self.asked: list[tuple[str | None, dict[str, str]]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("/logs/"):
            status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
            return httpx.Response(200, json={"slug": "bert", "status": status})
        self.asked.append((request.headers.get("Last-Event-ID"), dict(request.url.params)))
        answer = self.streams.pop(0)
        return answer if isinstance(answer, httpx.Response) else httpx.Response(200, content=_content(answer))

    @property
    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self)


def _content(events: list[str]) -> Iterator[bytes]:
    yield from (event.encode() for event in events)
    if not events or "event: end" not in events[-1]:
        raise httpx.ReadError("Connection reset by peer")


def test_lines_go_to_stdout_and_what_is_said_about_them_to_stderr(run: Run) -> None:
    server = Server(
        [[lines("one\ntwo\n", "2", "7 lines dropped here"), end("ended", "All of it.")]], ["running"]
    )
    done = run("logs", "bert", "--pod", "1", "--attempt", "2", "--tail", "9", transport=server.transport)
    assert (done.exit_code, done.stdout) == (0, "one\ntwo\n")
    assert done.stderr == "… 7 lines dropped here\n… All of it.\n"
    assert server.asked == [(None, {"pod": "1", "attempt": "2", "tail": "9"})]


@pytest.mark.parametrize(
    ("status", "exit_code"),
    [
        ("completed", 0),
        ("failed", Exit.WORKLOAD_FAILED),
        ("preempted", Exit.WORKLOAD_PREEMPTED),
        ("running", 0),
    ],
)
def test_following_goes_on_over_broken_streams_and_tells_how_it_ended(
    run: Run, status: str, exit_code: int
) -> None:
    streams: list[httpx.Response | list[str]] = [
        [lines("one\n", "1")],
        [note("away", "The agent is away."), lines("two\n", "2")],
        [lines("three\n"), end()],
    ]
    server = Server(streams, [status])
    done = run("logs", "-f", "bert", transport=server.transport)
    assert (done.exit_code, done.stdout) == (exit_code, "one\ntwo\nthree\n")
    assert [last for last, _ in server.asked] == [None, "1", "2"]
    assert server.asked[0][1]["follow"] == "true"
    assert "The agent is away." in done.stderr


def test_following_a_workload_that_waits_begins_when_it_runs(run: Run) -> None:
    server = Server([NOT_YET, NOT_YET, [lines("one\n"), end()]], ["pending", "pending", "completed"])
    done = run("logs", "--follow", "bert", transport=server.transport)
    assert (done.exit_code, done.stdout) == (0, "one\n")
    assert done.stderr == "… bert is Pending: it has had no pods yet. Waiting for it.\n"


def test_a_workload_that_ended_without_pods_has_no_logs(run: Run) -> None:
    for options in ([], ["--follow"]):
        server = Server([NOT_YET], ["cancelled"])
        assert run("logs", "bert", *options, transport=server.transport).exit_code == Exit.CONFLICT


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("away", Exit.TIMEOUT),
        ("not-allowed", Exit.NOT_ALLOWED),
        ("not-started", Exit.CONFLICT),
        ("nothing", Exit.NOT_FOUND),
        ("failed", Exit.FAILED),
    ],
)
def test_an_end_that_is_none_of_the_pods_has_an_exit_status_of_its_own(
    run: Run, code: str, exit_code: Exit
) -> None:
    server = Server([[end(code, "Why.")]], ["running"])
    done = run("logs", "bert", transport=server.transport)
    assert (done.exit_code, done.stderr) == (exit_code, "… Why.\n")


def test_the_server_refuses_what_is_not_visible_or_not_there_yet(
    run: Run, become: object, ada: User, stranger: User, nlp: Team
) -> None:
    make_workload(nlp, ada, slug="bert-1")
    become(ada)  # type: ignore[operator]
    refused = run("logs", "bert-1")
    assert (refused.exit_code, refused.stderr) == (
        Exit.CONFLICT,
        "Error: bert-1 is Pending: it has had no pods yet.\n",
    )
    assert run("logs", "bert-1", "--pod", "3").exit_code == Exit.REJECTED
    become(stranger)  # type: ignore[operator]
    assert run("logs", "bert-1").exit_code == Exit.NOT_FOUND
