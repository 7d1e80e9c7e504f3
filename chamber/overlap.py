"""Statements that PostgreSQL works on while this process goes on, so that neither waits where it need not.

Inside of an `overlapping` block, `send`, `update` and `read` hand a statement over and return. Its answer is taken
before the next statement, of whatever kind, and at the latest at the end of the block. At most one is under way: all
happens in the order in which it is written, in the caller's transaction, and no session is busy without a statement,
so that the server's time-outs hold. What goes wrong is raised where the answer is taken. What is sent passes the
execute wrappers that are installed around the block like any other statement, so it is counted and logged.

On SQLite, and outside of a block, all three do at once what they are asked for.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, NamedTuple

from django.db import Error, connection
from django.db.models import QuerySet

Answer = Any
"""What a statement was answered, as libpq has it."""


class _Query(NamedTuple):
    """What a cursor has executed, as Django's log looks at it."""

    query: bytes


class _Overlap:
    """The execute wrapper of a block. `then` takes the answer of the statement that is executed next, if that is to be
    sent.
    """

    def __init__(self) -> None:
        self.then: Callable[[Answer], object] | None = None
        self._under_way: Callable[[Answer], object] | None = None

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        from psycopg import generators

        then, self.then = self.then, None
        raw, cursor = connection.connection, context["cursor"]
        if then is None or not raw.pgconn.transaction_status:
            self.collect()
            result = execute(sql, params, many, context)
            if then is not None:
                then(cursor.pgresult)
            return result
        connection.validate_no_broken_transaction()
        query = cursor.mogrify(sql, params).encode()  # while the one before is still under way
        cursor.cursor._query = _Query(query)
        self.collect()
        with connection.wrap_database_errors:
            raw.pgconn.send_query(query)
            raw.wait(generators.send(raw.pgconn))
        self._under_way = then
        return None

    def collect(self, *, tell: bool = True) -> None:
        """Take the answer of what is under way, if anything is; raise what it failed with. Where nothing counts any
        more, who asked for it is not told.
        """
        from psycopg import errors, generators, pq

        then, self._under_way = self._under_way, None
        if then is None:
            return
        with connection.wrap_database_errors:
            raw = connection.connection
            answer = raw.wait(generators.fetch_many(raw.pgconn))[-1]
            if answer.status == pq.ExecStatus.FATAL_ERROR:
                raise errors.error_from_result(answer, encoding=raw.info.encoding)
        if tell:
            then(answer)


def _nothing(_: Answer) -> None:
    """Take an answer of which nothing is to be known."""


_block: ContextVar[_Overlap | None] = ContextVar("overlapping", default=None)


@contextmanager
def overlapping() -> Iterator[None]:
    """Have what is sent inside run beside this process; the caller holds the transaction."""
    if connection.vendor != "postgresql" or not connection.in_atomic_block or _block.get() is not None:
        yield
        return
    block = _Overlap()
    with connection.execute_wrapper(block):
        held = _block.set(block)
        try:
            yield
            block.collect()
        except BaseException:
            # The connection is of use again only once it was answered; the transaction is lost anyway.
            with suppress(Error):
                block.collect(tell=False)
            raise
        finally:
            _block.reset(held)


def check_at_once() -> None:
    """Have PostgreSQL check foreign keys with each statement of this transaction, which may be beside this process, and
    not all of them while everybody waits for the commit.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


def send(sql: str, parameters: Sequence[Any]) -> None:
    """Execute a statement of which nothing is to be known."""
    block = _block.get()
    if block is not None:
        block.then = _nothing
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)


def update(rows: QuerySet[Any], changed: Callable[[int], object], **columns: Any) -> None:
    """Update these rows; `changed` is told how many there were, and may raise."""
    block = _block.get()
    if block is None:
        changed(rows.update(**columns))
        return
    block.then = lambda answer: changed(answer.command_tuples or 0)
    try:
        rows.update(**columns)
        unsent = block.then is not None
    finally:
        block.then = None
    if unsent:
        # Django asks nothing of the database where it sees that there are no such rows.
        changed(0)


def read(sql: str, parameters: Sequence[Any]) -> Callable[[], Sequence[str | None]]:
    """Have one row of texts read; what is returned waits for it and returns it."""
    block = _block.get()
    if block is None:
        with connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            row: Sequence[str | None] = cursor.fetchone()
        return lambda: row
    answers: list[Answer] = []
    block.then = answers.append
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)

    def texts() -> Sequence[str | None]:
        if not answers:
            block.collect()
        values = [answers[0].get_value(0, column) for column in range(answers[0].nfields)]
        return [None if value is None else value.decode() for value in values]

    return texts
