"""What the client makes of networks and servers that do not do as they should."""

import json
from collections.abc import Callable, Iterator

import httpx
import pytest

from chamber.cli import client
from chamber.cli.client import Client, parse_stream
from chamber.cli.config import StoredLogin, normal
from chamber.cli.status import Exit, Failure
from chamber.models import User
from chamber.tests.cli.conftest import SERVER, Run

Handler = Callable[[httpx.Request], httpx.Response]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "RETRY_AFTER_SECONDS", 0)


def answering(
    *answers: httpx.Response | Exception, seen: list[httpx.Request] | None = None
) -> httpx.MockTransport:
    """Return a transport that gives these answers one after another."""
    waiting = list(answers)

    def handle(request: httpx.Request) -> httpx.Response:
        if seen is not None:
            seen.append(request)
        answer = waiting.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return httpx.MockTransport(handle)


def client_with(*answers: httpx.Response | Exception, seen: list[httpx.Request] | None = None) -> Client:
    return Client(StoredLogin(SERVER, "chb_x"), transport=answering(*answers, seen=seen))


def test_a_dead_connection_is_one_sentence_with_the_address(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAMBER_TOKEN", "chb_x")
    refused = httpx.ConnectError("[Errno 111] Connection refused")

    result = run("whoami", transport=answering(refused, refused))

    assert result.exit_code == 1
    assert result.stderr == f"Error: {SERVER} cannot be reached: Connection refused.\n"


def test_silence_is_a_timeout(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAMBER_TOKEN", "chb_x")

    result = run("whoami", transport=answering(httpx.ReadTimeout("")))

    assert result.exit_code == 7
    assert result.stderr == f"Error: {SERVER} did not answer in time.\n"


def test_reading_is_tried_once_more() -> None:
    seen: list[httpx.Request] = []
    broken = httpx.ReadError("")

    assert client_with(broken, httpx.Response(200, json={"a": 1}), seen=seen).get("me/") == {"a": 1}
    with pytest.raises(Failure):
        client_with(broken, broken, httpx.Response(200)).get("me/")
    assert len(seen) == 2


def test_writing_is_repeated_only_with_a_key_and_then_with_the_same() -> None:
    seen: list[httpx.Request] = []
    broken = httpx.RemoteProtocolError("Server disconnected")

    assert client_with(broken, httpx.Response(201, json={}), seen=seen).post("workloads/", {}, key="k1") == {}
    assert [request.headers["Idempotency-Key"] for request in seen] == ["k1", "k1"]
    with pytest.raises(Failure, match="Server disconnected"):
        client_with(broken, httpx.Response(201, json={})).post("workloads/", {})


@pytest.mark.parametrize(
    ("status", "exit_status"),
    [
        (400, 6),
        (401, 4),
        (403, 4),
        (404, 3),
        (409, 5),
        (412, 5),
        (413, 6),
        (422, 6),
        (428, 5),
        (500, 1),
        (504, 7),
    ],
)
def test_each_refusal_has_its_exit_status(status: int, exit_status: int) -> None:
    problem = {"detail": "It is refused.", "errors": {"gpus": "Too many."}}

    with pytest.raises(Failure) as raised:
        client_with(httpx.Response(status, json=problem)).get("me/")

    assert raised.value.exit_code == exit_status
    assert raised.value.message == "It is refused."
    assert raised.value.fields == {"gpus": "Too many."}


def test_what_is_no_problem_is_told_by_its_status() -> None:
    with pytest.raises(Failure, match=r"api/v1/me/ answered 502 Bad Gateway\."):
        client_with(httpx.Response(502, text="<html>")).get("me/")


def test_what_is_no_chamber_server_is_said_so() -> None:
    with pytest.raises(Failure, match="did not answer as a Chamber server does"):
        client_with(httpx.Response(200, text="<html>")).get("me/")


def test_nested_errors_get_a_line_for_each_field() -> None:
    errors = {"workloads": [{}, {"gpus": ["Too many.", "Not whole."]}], "name": []}

    with pytest.raises(Failure) as raised:
        client_with(httpx.Response(422, json={"detail": "No.", "errors": errors})).get("me/")

    assert raised.value.fields == {"workloads[1].gpus": "Too many. Not whole."}


def test_pages_are_followed_by_their_query_alone() -> None:
    seen: list[httpx.Request] = []
    pages = [
        httpx.Response(
            200,
            json={"next": "http://inside.example/api/v1/x/?cursor=c%3D2", "results": [{"id": 1}, {"id": 2}]},
        ),
        httpx.Response(200, json={"next": None, "results": [{"id": 3}]}),
    ]

    assert [row["id"] for row in client_with(*pages, seen=seen).rows("x/")] == [1, 2, 3]
    assert seen[1].url.host == "testserver"
    assert seen[1].url.params["cursor"] == "c=2"


def test_no_more_rows_are_read_than_asked_for() -> None:
    page = httpx.Response(
        200, json={"next": "http://testserver/?cursor=2", "results": [{"id": 1}, {"id": 2}]}
    )

    assert [row["id"] for row in client_with(page).rows("x/", limit=2)] == [1, 2]


def test_the_stream_is_parsed_as_the_standard_says() -> None:
    def lines() -> Iterator[str]:
        yield from (
            ": hello",
            "",
            "id: 7",
            "event: status",
            "data: {",
            "data: }",
            "",
            "data:x",
            "",
            "id: 9",
            "data: lost",
        )

    assert [(m.id, m.event, m.data) for m in parse_stream(lines())] == [
        ("7", "status", "{\n}"),
        ("7", "message", "x"),
    ]


@pytest.mark.parametrize(
    ("given", "address"),
    [("chamber.example.org/", "http://chamber.example.org"), (" https://c.example ", "https://c.example")],
)
def test_addresses_are_completed(given: str, address: str) -> None:
    assert normal(given) == address


def test_an_address_of_another_kind_is_a_usage_error(run: Run, ada: User) -> None:
    result = run("login", "--url", "ftp://x", "--username", "ada", "--password-stdin", stdin="x\n")

    assert result.exit_code == 2
    assert "'ftp://x' is not an address" in result.stderr


def test_the_names_of_the_path_are_quoted() -> None:
    assert client.segment("../me") == "..%2Fme"
    assert json.dumps(client.segment("a b")) == '"a%20b"'


@pytest.mark.parametrize("token", ["wröng", "chb_a\nb"])
def test_a_token_that_cannot_be_one_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(Failure) as refused:
        Client(StoredLogin("http://x", token))
    assert token not in refused.value.message
    assert refused.value.exit_code == Exit.USAGE


def one_too_many(seconds: str, code: str = "too-many-requests") -> httpx.Response:
    problem = {"detail": f"You have sent too many. Try again in {seconds} seconds.", "code": code}
    return httpx.Response(429, json=problem, headers={"Retry-After": seconds})


def test_what_was_one_too_many_is_sent_again_when_the_server_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    seen: list[httpx.Request] = []
    answers = (one_too_many("12"), one_too_many("30"), httpx.Response(201, json={"slug": "a"}))

    made = client_with(*answers, seen=seen).post("workloads/", {"name": "a"})

    assert made == {"slug": "a"}
    assert slept == [12, 30]
    assert [json.loads(request.content) for request in seen] == [{"name": "a"}] * 3
    assert capsys.readouterr().err.splitlines()[0] == (
        "You have sent too many. Try again in 12 seconds. Waiting."
    )


@pytest.mark.parametrize(("seconds", "code"), [("3000", "too-many-requests"), ("12", "throttled"), ("x", "")])
def test_what_takes_long_or_is_no_pace_is_told(
    monkeypatch: pytest.MonkeyPatch, seconds: str, code: str
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: pytest.fail("it waits"))
    with pytest.raises(
        Failure, match=rf"^You have sent too many\. Try again in {seconds} seconds\.$"
    ) as told:
        client_with(one_too_many(seconds, code)).get("me/")
    assert told.value.exit_code == Exit.REJECTED


def test_it_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("time.sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    with pytest.raises(Failure, match="too many"):
        client_with(*[one_too_many("60")] * 9).get("me/")
    assert clock[0] <= client.LONGEST_WAIT_SECONDS


def test_a_stream_too_begins_when_the_server_says(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    stream = httpx.Response(200, text="id: 1\nevent: status\ndata: {}\n\n")

    messages = list(client_with(one_too_many("7"), stream).stream("workloads/a/watch/"))

    assert ([message.id for message in messages], slept) == (["1"], [7])
