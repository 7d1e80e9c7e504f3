"""A server that is away: one line in the log, 503 over HTTP."""

import io
import logging
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
import redis
from celery.utils.serialization import UnpickleableExceptionWrapper
from django.db import OperationalError, ProgrammingError
from django.test import Client

from chamber.serving import absence, outages
from chamber.serving.absence import Absence


def logged(
    error: BaseException | None, message: str = "It failed.", brief: outages.Brief | None = None
) -> str | None:
    """Return what the filter makes of a record, with its traceback; None where it is left out."""
    info = (type(error), error, error.__traceback__) if error else None
    record = logging.LogRecord("a", logging.ERROR, "p", 1, message, None, info)
    if not (brief or outages.Brief()).filter(record):
        return None
    return logging.Formatter().format(record)


def raised(error: Exception, cause: Exception | None = None) -> Exception:
    try:
        if cause is None:
            raise error
        raise error from cause
    except Exception as caught:
        return caught


def test_an_outage_is_one_line() -> None:
    error = raised(OperationalError("connection refused\n\tIs the server running\n"))
    assert logged(error) == "It failed. connection refused Is the server running."


def test_a_question_is_not_followed_by_a_full_stop() -> None:
    error = raised(OperationalError("refused\n\tIs it accepting TCP/IP connections?\n"))
    assert logged(error) == "It failed. refused Is it accepting TCP/IP connections?"


@pytest.mark.parametrize(
    ("said", "plain"),
    [
        ("No master found for 'main' : <redis.client.Redis(<x>)> - network:ConnectionError, <y> - z",
         "no sentinel answers that knows the name 'main'."),
        ("No master found for 'main'", "no sentinel knows a server of the name 'main' that is up."),
        ("Error -2 connecting to db.test:6379. Name or service not known.", "db.test:6379: Name or service not known."),
        ("Error 1 connecting to a:1. [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed "
         "certificate (_ssl.c:1006).", "a:1: certificate verify failed: self-signed certificate."),
        ('connection failed: connection to server at "10.0.0.1", port 5432 failed: Connection refused\n\tIs the server '
         "running on that host and accepting TCP/IP connections?", "10.0.0.1:5432: Connection refused."),
        ('connection failed: connection to server at "10.0.0.1", port 5432 failed: FATAL:  password authentication '
         'failed for user "chamber"', '10.0.0.1:5432: password authentication failed for user "chamber".'),
        ('connection to server on socket "/run/.s.PGSQL.5432" failed: No such file or directory\n\tIs the server '
         "running locally and accepting connections on that socket?", "/run/.s.PGSQL.5432: No such file or directory."),
        ('connection to server at "db.test" (10.0.0.1), port 5432 failed: SSL error: certificate verify failed',
         "db.test:5432: certificate verify failed."),
        ("failed to resolve host 'db.test': [Errno -2] Name or service not known",
         "failed to resolve host 'db.test': Name or service not known."),
        ("_ssl.c:989: The handshake operation timed out", "The handshake operation timed out."),
    ],
)  # fmt: skip
def test_what_libraries_write_around_a_reason_is_left_out(said: str, plain: str) -> None:
    assert outages.first_line(Exception(said)) == plain


def test_an_outage_behind_another_error_is_one_line_too() -> None:
    error = raised(RuntimeError("cannot send"), redis.ConnectionError("Error 111"))
    assert logged(error) == "It failed. Error 111."


def test_what_celery_wraps_is_known_by_its_name() -> None:
    wrapped = UnpickleableExceptionWrapper(
        "django.db.utils", "OperationalError", ("away",), "OperationalError('away')"
    )
    assert logged(raised(wrapped)) == "It failed. OperationalError('away')."


def test_the_text_that_celery_keeps_of_a_failed_duty_goes_too() -> None:
    error = raised(OperationalError("away"))
    record = logging.LogRecord(
        "a", logging.ERROR, "p", 1, "m", None, (type(error), error, error.__traceback__)
    )
    record.data = {"traceback": "Traceback (most recent call last): ..."}
    assert outages.Brief().filter(record)
    assert "Traceback" not in str(vars(record))


def test_the_pools_tries_are_one_line_and_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    brief = outages.Brief()
    record = logging.LogRecord(
        "psycopg.pool", logging.WARNING, "p", 1, "refused\n\tIs it %s?\n", ("running",), None
    )
    again = logging.makeLogRecord(record.__dict__)
    assert brief.filter(record)
    assert record.getMessage() == "refused Is it running?"
    assert not brief.filter(again)


def test_a_fault_of_ours_keeps_its_traceback() -> None:
    text = logged(raised(ValueError("ours")))
    assert text is not None
    assert "Traceback" in text


def test_the_same_outage_is_said_again_only_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    brief, error = outages.Brief(), raised(OperationalError("away"))
    assert logged(error, brief=brief) is not None
    assert logged(error, brief=brief) is None
    assert logged(raised(OperationalError("other")), brief=brief) is not None
    later = time.monotonic() + outages.SAY_EVERY_SECONDS
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert logged(error, brief=brief) is not None


def test_an_error_handled_on_purpose_is_no_outage() -> None:
    def refuses() -> None:
        try:
            raise OperationalError("away")
        except OperationalError:
            raise ValueError("ours") from None

    with pytest.raises(ValueError, match="ours") as caught:
        refuses()
    assert outages.outage(caught.value) is None


@pytest.mark.parametrize("sqlstate", ["42P01", "42703"])
def test_a_missing_table_or_column_is_an_outage_until_it_is_migrated(sqlstate: str) -> None:
    cause = Exception()
    cause.sqlstate = sqlstate  # type: ignore[attr-defined]
    assert outages.outage(raised(ProgrammingError('relation "x" does not exist'), cause)) is not None
    assert outages.outage(raised(ProgrammingError("syntax error"), Exception())) is None


@pytest.mark.parametrize("error", [OperationalError("away"), redis.ConnectionError("away")])
@pytest.mark.parametrize("place", ["chamber.accounts.sign_in", "chamber.serving.proxies.take_word"])
def test_an_outage_is_503_with_retry_after_in_a_view_and_in_a_middleware(
    client: Client, db: None, place: str, error: Exception
) -> None:
    client.raise_request_exception = False

    def fail(*_: object, **__: object) -> None:
        raise error

    with patch(place, fail):
        answer = client.post("/sign-in/", {"login": "ada", "password": "x"})
    assert (answer.status_code, int(answer["Retry-After"]) > 0) == (503, True)


def until(holds: Callable[[], object]) -> None:
    """Wait until it holds."""
    deadline = time.monotonic() + 90
    while not holds():
        assert time.monotonic() < deadline, holds
        time.sleep(0.01)


class Server:
    """A server that is there or not, as a test says, and what is logged about it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error: Exception | None = redis.ConnectionError("refused\n")
        self.asked = threading.Event()
        self.absence = Absence("Redis", self._answer)
        monkeypatch.setattr(absence, "PROBE_SECONDS", 0.01)
        monkeypatch.setattr(absence, "REDIS", self.absence)

    def _answer(self) -> None:
        self.asked.set()
        if self.error is not None:
            raise self.error

    def answers(self) -> None:
        self.error = None
        until(lambda: not self.absence.looked_for)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[Server]:
    settings.REDIS = "redis://redis.test/0"
    made = Server(monkeypatch)
    yield made
    made.answers()


@pytest.fixture
def ended(caplog: pytest.LogCaptureFixture) -> Callable[[], list[tuple[str, str]]]:
    caplog.set_level(logging.INFO, logger="chamber.serving.absence")
    return lambda: [
        (record.levelname, record.getMessage())
        for record in caplog.records
        if record.name == absence.__name__
    ]


REFUSED = redis.ConnectionError("Error 111")


def test_a_server_that_goes_is_one_error_whoever_wants_it_and_one_line_when_it_is_back(
    server: Server, ended: Callable[[], list[tuple[str, str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    brief = outages.Brief()
    assert logged(raised(REFUSED), "Not sent.", brief) is None
    for why in ("Error 111", "Error 104", "Timeout"):
        assert logged(raised(redis.ConnectionError(why)), "Not told.", brief) is None
    until(ended)
    assert ended() == [("ERROR", "Redis is away: refused.")]
    server.answers()
    until(lambda: len(ended()) > 1)
    [_, (level, said)] = ended()
    assert (level, said.startswith("Redis is back after ")) == ("INFO", True)
    server.error = REFUSED
    later = time.monotonic() + absence.LATE_SECONDS
    monkeypatch.setattr(outages, "time", SimpleNamespace(monotonic=lambda: later))
    assert logged(raised(REFUSED), "Not sent.", brief) is None
    until(lambda: len(ended()) > 2)
    assert ended()[2] == ("ERROR", "Redis is away: Error 111.")


def test_a_server_that_goes_after_it_was_looked_for_in_vain_is_looked_for_again(
    server: Server, ended: Callable[[], list[tuple[str, str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outages, "SAY_EVERY_SECONDS", 1e9)
    brief, server.error = outages.Brief(), None
    assert logged(raised(REFUSED), brief=brief) is None
    until(lambda: not server.absence.looked_for)
    server.error = REFUSED
    assert logged(raised(REFUSED), brief=brief) is None
    until(ended)
    assert ended() == [("ERROR", "Redis is away: Error 111.")]


@pytest.mark.parametrize(
    ("answer", "begun", "over"),
    [
        ('FATAL:  password authentication failed for user "x"', "refuses the sign-in", "accepts the sign-in again"),
        ("invalid username-password pair or user is disabled.", "refuses the sign-in", "accepts the sign-in again"),
        ("FATAL:  sorry, too many clients already", "accepts no more connections", "accepts connections again"),
        ("FATAL:  the database system is starting up", "is away", "is back"),
    ],
)  # fmt: skip
def test_a_server_that_answers_and_cannot_be_used_is_not_away(
    server: Server, ended: Callable[[], list[tuple[str, str]]], answer: str, begun: str, over: str
) -> None:
    server.error = redis.ConnectionError(answer)
    assert logged(raised(REFUSED)) is None
    until(ended)
    assert ended()[0][1].startswith(f"Redis {begun}: ")
    server.answers()
    until(lambda: len(ended()) > 1)
    assert ended()[1][1].startswith(f"Redis {over} after ")


def test_a_server_that_stays_away_is_said_again_after_minutes(
    server: Server, ended: Callable[[], list[tuple[str, str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert logged(raised(REFUSED)) is None
    until(ended)
    assert ended() == [("ERROR", "Redis is away: refused.")]
    monkeypatch.setattr(absence, "AGAIN_SECONDS", 0.0)
    until(lambda: len(ended()) > 1)
    level, said = ended()[1]
    assert (level, said.endswith(" s: refused.")) == ("ERROR", True)
    assert said.startswith("Redis is still away, after ")


@pytest.fixture
def handled() -> Iterator[Callable[[], list[str]]]:
    """What a handler of the server's log writes of the logger `a`."""
    handler, written = logging.StreamHandler(io.StringIO()), io.StringIO()
    handler.setStream(written)
    handler.addFilter(outages.Brief())
    logging.getLogger("a").addHandler(handler)
    yield lambda: written.getvalue().splitlines()
    logging.getLogger("a").removeHandler(handler)


def test_where_a_server_answers_at_once_it_was_not_away_and_the_error_is_logged(
    server: Server, ended: Callable[[], list[tuple[str, str]]], handled: Callable[[], list[str]]
) -> None:
    server.error = None
    logging.getLogger("a").error("Not sent.", exc_info=raised(REFUSED))
    until(server.asked.is_set)
    until(lambda: not server.absence.looked_for)
    assert handled() == ["Not sent. Error 111."]
    assert ended() == []


def test_a_process_that_ends_before_the_server_was_looked_for_logs_the_error(
    server: Server, monkeypatch: pytest.MonkeyPatch, handled: Callable[[], list[str]]
) -> None:
    asked = threading.Event()

    def answer() -> None:
        asked.wait()

    slow = Absence("Redis", answer)
    monkeypatch.setattr(absence, "REDIS", slow)
    logging.getLogger("a").error("Not sent.", exc_info=raised(REFUSED))
    assert handled() == []
    absence._end()
    assert handled() == ["Not sent. Error 111."]
    asked.set()
    until(lambda: not slow.looked_for)
    assert handled() == ["Not sent. Error 111."]


def test_a_warning_that_names_its_error_counts_too(
    server: Server, ended: Callable[[], list[tuple[str, str]]]
) -> None:
    record = logging.LogRecord("a", logging.WARNING, "p", 1, "Pages are late: %s", (REFUSED,), None)
    assert not outages.Brief().filter(record)
    assert (record.levelname, record.getMessage()) == ("WARNING", "Pages are late: Error 111")
    until(ended)
    assert ended() == [("ERROR", "Redis is away: refused.")]
    assert logged(None, "Something else.") == "Something else."


@pytest.mark.parametrize(
    ("said", "sqlstate", "certain"),
    [
        ("connection refused", None, True),
        ("terminating connection", "57P01", True),
        ("canceling statement due to lock timeout", "55P03", None),
        ("could not extend file: No space left on device", "53100", None),
        ("couldn't get a connection after 5.00 sec", None, False),
    ],
)
def test_what_says_that_postgresql_was_not_reached(
    said: str, sqlstate: str | None, certain: bool | None, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an error that the server itself answered with nothing is left out of the log, also just after an outage."""
    monkeypatch.setitem(settings.DATABASES["default"], "ENGINE", "django.db.backends.postgresql")
    cause = Exception()
    cause.sqlstate = sqlstate  # type: ignore[attr-defined]
    error = raised(OperationalError(said), cause)
    about = absence.POSTGRESQL if certain is not None else None
    assert outages._absent(error, "") == (about, bool(certain))


def test_what_the_pool_says_of_a_server_that_is_looked_for_is_left_out(
    server: Server,
    ended: Callable[[], list[tuple[str, str]]],
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(settings.DATABASES["default"], "ENGINE", "django.db.backends.postgresql")
    monkeypatch.setattr(absence, "POSTGRESQL", server.absence)
    brief, empty = outages.Brief(), OperationalError("couldn't get a connection after 5.00 sec")
    assert logged(raised(empty), brief=brief) is not None  # all of them may be in use
    assert not server.absence.looked_for
    tried = logging.LogRecord(
        outages.POOL, logging.WARNING, "p", 1, "error connecting in 'a': no", None, None
    )
    broke = [
        logging.makeLogRecord(tried.__dict__ | {"msg": f"discarding closed connection: <{number}>"})
        for number in range(3)
    ]
    assert not brief.filter(broke[0])
    until(ended)
    assert not any(brief.filter(each) for each in (*broke[1:], tried))
    assert [said for _, said in ended()] == ["Redis is away: refused."]
    assert logged(raised(empty), "Another.", brief) is None
    server.answers()
    assert logged(raised(empty), "A third.", brief) is None  # it began to wait while the server was away


def test_where_no_thread_can_be_had_it_is_looked_for_at_the_next_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none_left(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    looked: list[int] = []
    server = Absence("Redis", lambda: looked.append(1))
    with monkeypatch.context() as scarce:
        scarce.setattr(threading.Thread, "start", none_left)
        assert not server.begin()
        assert not server.looked_for
    assert server.begin()
    until(lambda: not server.looked_for)
    assert looked == [1]
