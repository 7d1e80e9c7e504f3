"""`chamber run`: submitted once, followed to its end, its lines between its events."""

import json
from collections.abc import Callable, Iterator

import httpx
import pytest

from chamber.cli.commands import follow
from chamber.tests.cli.conftest import Run

ASKED = ("run", "--team", "nlp", "--image", "x")


@pytest.fixture(autouse=True)
def _signed_in(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAMBER_TOKEN", "chb_x")
    monkeypatch.setattr(follow, "FIRST_PAUSE_SECONDS", 0.001)


def event(sequence: int, message: str, *, status: str, kind: str = "status", attempt: int = 1) -> str:
    data = {"sequence": sequence, "at": "2030-01-01T12:00:00Z", "message": message, "kind": kind}
    data |= {"attempt_number": attempt, "data": {"status": status}}
    return f"id: {sequence}\ndata: {json.dumps(data)}\n\n"


def lines(text: str, *, code: str = "ended", message: str = "") -> str:
    told = f"event: lines\ndata: {json.dumps({'text': text, 'dropped': ''})}\n\n" if text else ""
    return f"{told}event: end\ndata: {json.dumps({'code': code, 'message': message})}\n\n"


class Server:
    """Takes one submission, and tells events and the logs of attempts."""

    def __init__(self, events: list[str], logs: dict[str, httpx.Response], status: str) -> None:
        self.events, self.logs, self.status = events, logs, status
        self.keys: list[str] = []
        self.interrupt = False

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            self.keys.append(request.headers["Idempotency-Key"])
            return httpx.Response(201, json={"slug": "x-1"})
        if request.url.path.endswith("/watch/"):
            return httpx.Response(200, content=self._told())
        if request.url.path.endswith("/logs/"):
            return self.logs[request.url.params["attempt"]]
        return httpx.Response(200, json={"slug": "x-1", "status": self.status})

    def _told(self) -> Iterator[bytes]:
        yield from (text.encode() for text in self.events)
        if self.interrupt:
            raise KeyboardInterrupt

    @property
    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self)


RUNS = [
    event(1, "Submitted.", status="pending", kind="submitted"),
    event(2, "All its pods run.", status="running"),
    event(3, "Some of its GPUs are idle.", status="running", kind="held"),
]


def test_lines_go_to_stdout_and_what_happens_to_stderr(run: Run) -> None:
    ends = event(4, "Completed.", status="completed")
    server = Server([*RUNS, ends], {"1": httpx.Response(200, text=lines("step 1\nstep 2\n"))}, "completed")
    result = run(*ASKED, transport=server.transport)
    assert (result.exit_code, result.stdout) == (0, "step 1\nstep 2\n")
    told = [line.split("  ")[-1] for line in result.stderr.splitlines()]
    assert told == [
        "x-1 is submitted.",
        "Submitted.",
        "All its pods run.",
        "Some of its GPUs are idle.",
        "Completed.",
    ]
    assert len(server.keys) == 1


def test_a_workload_that_comes_back_is_followed_through_all_its_attempts(run: Run) -> None:
    events = [
        *RUNS,
        event(4, "Preempted.", status="pending"),
        event(5, "Runs again.", status="running", attempt=2),
    ]
    logs = {number: httpx.Response(200, text=lines(f"try {number}\n")) for number in ("1", "2")}
    result = run(*ASKED, transport=Server(events, logs, "failed").transport)
    assert (result.exit_code, result.stdout) == (8, "try 1\ntry 2\n")


@pytest.mark.parametrize(
    "answer",
    [
        lambda: httpx.Response(404, json={"detail": "x-1 has no attempt 1 that had pods."}),
        lambda: httpx.Response(
            200, text=lines("", code="not-carried", message="x-1 has no attempt 1 that had pods.")
        ),
    ],
)
def test_without_a_log_the_events_go_on(run: Run, answer: Callable[[], httpx.Response]) -> None:
    server = Server([*RUNS, event(4, "Preempted.", status="preempted")], {"1": answer()}, "preempted")
    result = run(*ASKED, transport=server.transport)
    assert result.exit_code == 9
    assert "… x-1 has no attempt 1 that had pods." in result.stderr
    assert "Preempted." in result.stderr


def test_who_stops_following_learns_how_to_go_on(run: Run) -> None:
    server = Server(RUNS[:1], {}, "pending")
    server.interrupt = True
    result = run(*ASKED, transport=server.transport)
    assert (result.exit_code, "Aborted" in result.stderr) == (130, False)
    assert "x-1 goes on: `chamber watch x-1` follows it, `chamber cancel x-1` ends it." in result.stderr


def test_several_workloads_are_not_followed(run: Run) -> None:
    result = run("run", "-f", "-", stdin="{name: a, team: t, image: i}\n---\n{name: b, team: t, image: i}\n")
    assert result.exit_code == 2
    assert "holds 2 workloads; `chamber submit` takes several" in result.stderr
