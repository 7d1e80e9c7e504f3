"""`chamber watch` over streams that break, and how `chamber wait` ends."""

import json
from collections.abc import Iterator

import httpx
import pytest

from chamber.cli.commands import follow
from chamber.tests.cli.conftest import Run

Answer = httpx.Response | Exception


@pytest.fixture(autouse=True)
def _signed_in(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAMBER_TOKEN", "chb_x")
    monkeypatch.setattr(follow, "FIRST_PAUSE_SECONDS", 0.001)


def event(sequence: int, message: str = "") -> str:
    data = {"sequence": sequence, "at": "2030-01-01T12:00:00Z", "message": message or f"event {sequence}"}
    return f"id: {sequence}\ndata: {json.dumps(data)}\n\n"


def stream(*events: str, broken: bool = False) -> httpx.Response:
    def content() -> Iterator[bytes]:
        yield from (text.encode() for text in events)
        if broken:
            raise httpx.ReadError("Connection reset by peer")

    return httpx.Response(200, content=content())


class Server:
    """Answers streams and questions for the status, each in its order; the last status stays."""

    def __init__(self, streams: list[Answer], statuses: list[str]) -> None:
        self.streams, self.statuses = list(streams), list(statuses)
        self.last_ids: list[str | None] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.headers["Accept"] == "text/event-stream":
            self.last_ids.append(request.headers.get("Last-Event-ID"))
            answer = self.streams.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        return httpx.Response(200, json={"slug": "bert", "status": status})

    @property
    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self)


def messages(output: str) -> list[int]:
    return [json.loads(line)["sequence"] for line in output.splitlines()]


def test_events_are_told_until_the_workload_ends(run: Run) -> None:
    server = Server([stream(": hello\n\n", event(1, "Submitted."), event(2, "Done."))], ["completed"])

    result = run("watch", "bert", transport=server.transport)

    assert result.exit_code == 0
    assert [line.split("  ")[1] for line in result.stdout.splitlines()] == ["Submitted.", "Done."]


@pytest.mark.parametrize(
    "command",
    [
        ("watch", "bert"),
        ("wait", "bert"),
        ("logs", "-f", "bert"),
        ("top", "--watch"),
        ("list",),
        ("token", "list"),
    ],
)
def test_ctrl_c_ends_it_without_a_word(run: Run, command: tuple[str, ...]) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise KeyboardInterrupt

    result = run(*command, transport=httpx.MockTransport(answer))
    assert (result.exit_code, result.output) == (130, "")


def test_an_event_is_told_with_date_and_zone() -> None:
    told = follow.line_of({"at": "2026-01-01T13:00:00+01:00", "message": "Starts."})
    assert told == "2026-01-01 12:00:00 UTC  Starts."


def test_what_the_server_does_not_know_is_said_once_on_stderr(run: Run) -> None:
    silent = {
        "Chamber-Undecided-Since": "2026-01-01T12:00:00+00:00",
        "Chamber-Silent-Clusters": "west=2026-01-01T11:00:00+00:00, odd",
    }

    def answer(request: httpx.Request) -> httpx.Response:
        path = request.url.path
        body: dict[str, object] = {"results": [], "next": None} if path.endswith("workloads/") else {}
        return httpx.Response(200, json=body, headers=silent)

    result = run("list", transport=httpx.MockTransport(answer))
    assert result.stderr.splitlines() == [
        "There are no such workloads.",
        "The scheduler has decided nothing since 2026-01-01 12:00:00 UTC: no cycle has ended.",
        "The cluster west was last seen 2026-01-01 11:00:00 UTC; what its workloads do since is not known.",
    ]
    assert run("list", "-o", "json", transport=httpx.MockTransport(answer)).stdout == "[]\n"


def test_a_broken_stream_is_taken_up_where_it_broke(run: Run) -> None:
    broken: list[Answer] = [
        stream(event(1), event(2), broken=True),
        httpx.ConnectError("refused"),
        stream(event(2), event(3)),
    ]
    server = Server(broken, ["completed"])

    result = run("watch", "bert", "-o", "json", transport=server.transport)

    assert messages(result.stdout) == [1, 2, 3]
    assert server.last_ids == [None, "2", "2"]


def test_a_stream_that_ends_before_the_workload_is_taken_up_again(run: Run) -> None:
    server = Server([stream(event(1)), stream(event(2))], ["running", "completed"])

    assert messages(run("watch", "bert", "-o", "json", transport=server.transport).stdout) == [1, 2]


def test_what_the_server_no_longer_has_is_read_from_the_start_without_repeating(run: Run) -> None:
    gone = httpx.Response(410, json={"detail": "Too old."})
    server = Server([stream(event(1), broken=True), gone, stream(event(1), event(2))], ["completed"])

    assert messages(run("watch", "bert", "-o", "json", transport=server.transport).stdout) == [1, 2]
    assert server.last_ids == [None, "1", None]


def test_a_server_that_is_never_reached_is_a_failure(run: Run) -> None:
    server = Server([httpx.ConnectError("refused")], ["running"])

    result = run("watch", "bert", transport=server.transport)

    assert result.exit_code == 1
    assert "cannot be reached: refused." in result.stderr


def test_a_server_that_stays_away_is_given_up(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "GIVE_UP_SECONDS", 0.05)
    monkeypatch.setattr(follow, "LONGEST_PAUSE_SECONDS", 0.02)
    server = Server([stream(event(1), broken=True), *[httpx.ConnectError("refused")] * 50], ["running"])

    assert run("watch", "bert", transport=server.transport).exit_code == 1
    assert 2 < len(server.last_ids) < 50


ENDS = [("completed", 0), ("failed", 8), ("cancelled", 8), ("preempted", 9)]


@pytest.mark.parametrize(("status", "exit_status"), ENDS)
@pytest.mark.parametrize("command", ["watch", "wait"])
def test_the_exit_status_tells_how_it_ended(run: Run, command: str, status: str, exit_status: int) -> None:
    server = Server([stream(event(1))], [status])

    assert run(command, "bert", transport=server.transport).exit_code == exit_status


def test_waiting_for_several_gives_the_gravest_status(run: Run) -> None:
    server = Server([], ["running", "failed", "completed"])

    result = run("wait", "one", "two", transport=server.transport)

    assert result.exit_code == 8
    assert result.stderr == "one: failed\ntwo: completed\n"


def test_waiting_for_running_is_over_when_it_runs(run: Run) -> None:
    server = Server([], ["pending", "running"])

    assert run("wait", "bert", "--for", "running", transport=server.transport).exit_code == 0


def test_waiting_has_an_end_of_its_own(run: Run) -> None:
    server = Server([], ["pending"])

    result = run("wait", "bert", "--timeout", "0s", transport=server.transport)

    assert result.exit_code == 7
    assert result.stderr == "Error: bert is still pending; the time to wait is over.\n"


@pytest.mark.parametrize("text", ["soon", "-1s", "1w", "1.5h"])
def test_what_is_no_duration_is_a_usage_error(run: Run, text: str) -> None:
    result = run("wait", "bert", "--timeout", text)

    assert result.exit_code == 2
    assert repr(text) in result.stderr


def test_a_refusal_ends_the_watch(run: Run) -> None:
    server = Server([httpx.Response(404, json={"detail": "There is no workload 'bert'."})], ["running"])

    assert run("watch", "bert", transport=server.transport).exit_code == 3
