"""Statements that PostgreSQL works on beside this process: one transaction, in order, counted, and errors come out."""

from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import FieldDoesNotExist
from django.db import IntegrityError, OperationalError, connection, transaction
from psycopg.pq import TransactionStatus

from chamber.ids import new_id
from chamber.overlap import check_at_once, overlapping, read, send, update
from teams.models import Pool
from teams.tests.factories import make_org, make_pool, make_team


def rename(name: str, where: str = "true") -> None:
    send(f"UPDATE teams_pool SET name = %s WHERE {where}", [name])


def is_busy() -> bool:
    return bool(connection.connection.pgconn.transaction_status == TransactionStatus.ACTIVE)


def fail() -> None:
    send("UPDATE teams_pool SET name = %s", [None])


def do(*acts: Callable[[], object]) -> None:
    with transaction.atomic(), overlapping():
        for act in acts:
            act()


@pytest.mark.django_db
def test_outside_of_a_block_and_on_any_database_it_is_done_at_once() -> None:
    make_pool("One")
    rename("Two")
    assert Pool.objects.get().name == "Two"
    counts: list[int] = []
    update(Pool.objects.all(), counts.append, name="Three")
    assert (Pool.objects.get().name, counts) == ("Three", [1])


@pytest.mark.django_db
def test_what_is_sent_is_done_in_its_order_and_seen_by_what_follows() -> None:
    pool, counts = make_pool("One"), list[int]()
    with transaction.atomic(), overlapping():
        rename("Two")
        update(Pool.objects.filter(name="Two"), counts.append, name="Three")
        update(Pool.objects.filter(name="Two"), counts.append, name="Four")
        assert Pool.objects.get().name == "Three"
        assert counts == [1, 0]
        rename("100 % of 'it'")
    pool.refresh_from_db()
    assert pool.name == "100 % of 'it'"


@pytest.mark.postgres_only
@pytest.mark.django_db
def test_it_is_under_way_until_the_next_statement_or_the_end() -> None:
    make_pool("One")
    with transaction.atomic(), overlapping():
        rename("Two")
        assert is_busy()
        assert Pool.objects.get().name == "Two"
        assert not is_busy()
        rename("Three")
        assert is_busy()
    assert not is_busy()
    assert Pool.objects.get().name == "Three"


@pytest.mark.django_db
def test_what_is_sent_is_counted_and_logged(django_assert_num_queries: Any) -> None:
    make_pool("One")
    seen: list[str] = []

    def note(execute: Any, sql: str, *rest: Any) -> Any:
        seen.append(sql)
        return execute(sql, *rest)

    with connection.execute_wrapper(note), transaction.atomic():
        seen.clear()
        with overlapping(), django_assert_num_queries(2) as queries:
            rename("Two")
            update(Pool.objects.all(), list[int]().append, name="Three")
    assert len([sql for sql in seen if sql.startswith("UPDATE")]) == 2
    assert "'Two'" in queries.captured_queries[0]["sql"]


@pytest.mark.django_db
def test_what_is_read_is_of_the_moment_at_which_it_was_sent() -> None:
    make_pool("It's 100 % één")
    question = "SELECT name, %s, NULL, 'a' FROM teams_pool", ["b"]
    assert list(read(*question)()) == ["It's 100 % één", "b", None, "a"]
    with transaction.atomic(), overlapping():
        first = read(*question)
        rename("Two")
        second = read(*question)
    assert (first()[0], second()[0]) == ("It's 100 % één", "Two")


@pytest.mark.postgres_only
@pytest.mark.django_db
def test_an_error_comes_out_of_the_end_and_takes_all_with_it() -> None:
    make_pool("One")
    with pytest.raises(IntegrityError):
        do(lambda: rename("Two"), fail)
    assert Pool.objects.get().name == "One"


@pytest.mark.postgres_only
@pytest.mark.django_db
def test_an_error_in_the_middle_comes_out_of_the_next_statement() -> None:
    make_pool("One")
    after: list[int] = []
    with pytest.raises(IntegrityError):
        do(fail, lambda: rename("Two"), lambda: after.append(1))
    assert (Pool.objects.get().name, after) == ("One", [])
    do(lambda: rename("Three"))
    assert Pool.objects.get().name == "Three"


@pytest.mark.django_db
def test_no_rows_are_no_statement_and_what_follows_is_waited_for() -> None:
    make_pool("One")
    counts: list[int] = []
    with transaction.atomic(), overlapping():
        update(Pool.objects.filter(pk__in=[]), counts.append, name="Two")
        assert Pool.objects.get().name == "One"
        assert Pool.objects.update(name="Three") == 1
    assert counts == [0]


@pytest.mark.django_db
def test_who_is_told_a_count_may_refuse_it() -> None:
    make_pool("One")

    def refuse(count: int) -> None:
        raise ValueError(count)

    with pytest.raises(ValueError, match="1"):
        do(lambda: update(Pool.objects.all(), refuse, name="Two"))
    assert Pool.objects.get().name == "One"


@pytest.mark.django_db
@pytest.mark.parametrize("sent", [lambda: rename("Two"), fail])
def test_what_else_is_raised_in_a_block_comes_first(sent: Callable[[], None]) -> None:
    make_pool("One")

    def raises() -> None:
        raise LookupError

    with pytest.raises(LookupError if connection.vendor == "postgresql" else (LookupError, IntegrityError)):
        do(sent, raises)
    assert Pool.objects.get().name == "One"


@pytest.mark.django_db
def test_what_is_raised_in_a_block_comes_before_a_count_that_is_refused() -> None:
    make_pool("One")
    counts: list[int] = []

    def refuse(count: int) -> None:
        counts.append(count)
        if connection.vendor == "postgresql":
            raise ValueError(count)

    def raises() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        do(lambda: update(Pool.objects.all(), refuse, name="Two"), raises)
    assert Pool.objects.get().name == "One"


@pytest.mark.django_db
def test_an_update_that_is_never_sent_leaves_what_follows_alone() -> None:
    make_pool("One")
    with transaction.atomic(), overlapping():
        with pytest.raises(FieldDoesNotExist), transaction.atomic():
            update(Pool.objects.all(), lambda _: pytest.fail("was told"), nothing="Two")
        rename("Three")
    assert Pool.objects.get().name == "Three"


@pytest.mark.django_db
def test_savepoints_inside_of_a_block_are_undone_alone() -> None:
    make_pool("One")
    with transaction.atomic(), overlapping():
        rename("Two")
        with pytest.raises(IntegrityError):
            fail_in_a_savepoint()
        rename("Three", "name = 'Two'")
    assert Pool.objects.get().name == "Three"


@transaction.atomic
def fail_in_a_savepoint() -> None:
    fail()
    Pool.objects.get()


@pytest.mark.postgres_only
@pytest.mark.django_db
def test_foreign_keys_may_be_checked_inside_of_the_block() -> None:
    team, after = make_team(make_org(), "Team"), list[int]()
    question = "UPDATE teams_team SET parent_id = %s WHERE id = %s", [new_id(), team.pk]
    with pytest.raises(IntegrityError, match="foreign key"):
        do(check_at_once, lambda: send(*question), Pool.objects.first, lambda: after.append(1))
    assert not after


@pytest.mark.postgres_only
@pytest.mark.django_db(transaction=True)
def test_a_connection_that_is_lost_is_an_error_like_any_other() -> None:
    with pytest.raises(OperationalError):
        do(lambda: send("SELECT pg_terminate_backend(pg_backend_pid())", []))
    make_pool("One")
    assert Pool.objects.get().name == "One"
