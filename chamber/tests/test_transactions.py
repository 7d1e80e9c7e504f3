"""What is tried again, what is left where it would wait, and how a request is told that it may come back."""

import threading
from collections.abc import Callable

import pytest
from django.db import IntegrityError, InterfaceError, OperationalError, connection, transaction
from django.test import Client, RequestFactory

from chamber import views_errors
from chamber.models import ApiToken, Scope, User
from chamber.tokens import create_token
from chamber.transactions import tried_again


class Deadlock(Exception):  # noqa: N818 - stands for the driver's
    sqlstate = "40P01"


def busy(cause: Exception | None = None) -> OperationalError:
    error = OperationalError("database is locked" if cause is None else "deadlock detected")
    error.__cause__ = cause
    return error


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return how long was paused, instead of pausing."""
    taken: list[float] = []
    monkeypatch.setattr("time.sleep", taken.append)
    return taken


def failing(errors: list[Exception]) -> Callable[[], str]:
    def act() -> str:
        if errors:
            raise errors.pop(0)
        return "done"

    return act


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("error", [busy(), busy(Deadlock())])
def test_who_was_in_somebodys_way_is_tried_again(error: OperationalError, pauses: list[float]) -> None:
    assert tried_again("duty", failing([error, error])) == "done"
    assert len(pauses) == 2


@pytest.mark.django_db(transaction=True)
def test_it_is_tried_four_times(pauses: list[float]) -> None:
    errors: list[Exception] = [busy()] * 9
    with pytest.raises(OperationalError):
        tried_again("duty", failing(errors))
    assert (len(errors), len(pauses)) == (5, 3)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("error", [IntegrityError("twice"), OperationalError("the server is gone")])
def test_other_failures_are_not(error: Exception, pauses: list[float]) -> None:
    with pytest.raises(type(error)):
        tried_again("duty", failing([error]))
    assert not pauses


@pytest.mark.django_db
def test_inside_a_transaction_there_is_nothing_to_repeat(pauses: list[float]) -> None:
    with pytest.raises(OperationalError):
        tried_again("duty", failing([busy()]))
    assert not pauses


def status_for(secret: str) -> int:
    return Client().get("/api/v1/me/", headers={"Authorization": f"Bearer {secret}"}).status_code


@pytest.mark.django_db(transaction=True)
def test_using_a_token_waits_for_nobody_who_writes() -> None:
    user = User.objects.create_user("ada")
    token, secret = create_token(user=user, name="x", scope=Scope.READ, days=1)
    written, done = threading.Event(), threading.Event()

    def write() -> None:
        try:
            with transaction.atomic():
                ApiToken.objects.filter(pk=token.pk).update(name="y")
                written.set()
                done.wait(60)
        finally:
            connection.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert written.wait(60)
        assert status_for(secret) == 200
    finally:
        done.set()
        writer.join()
    token.refresh_from_db()
    assert (token.name, token.last_used_at) == ("y", None)
    assert status_for(secret) == 200
    token.refresh_from_db()
    assert token.last_used_at is not None


@pytest.mark.parametrize("error", [busy(), InterfaceError("connection already closed")])
@pytest.mark.parametrize(
    ("headers", "kind", "words"),
    [
        ({}, "text/html; charset=utf-8", "Try again in a moment"),
        ({"X-Chamber-Fragment": "1"}, "text/html; charset=utf-8", "did not answer in time"),
    ],
)
def test_a_page_without_its_database_may_be_asked_for_again(
    error: Exception, headers: dict[str, str], kind: str, words: str
) -> None:
    request = RequestFactory().get("/workloads/", headers=headers)
    try:
        raise error
    except type(error):
        answer = views_errors.server_error(request)
    assert (answer.status_code, answer["Retry-After"], answer["Content-Type"]) == (503, "1", kind)
    assert words in answer.content.decode()


def test_a_fault_of_ours_is_none_of_the_databases() -> None:
    try:
        raise KeyError("x")
    except KeyError:
        answer = views_errors.server_error(RequestFactory().get("/workloads/"))
    assert answer.status_code == 500
