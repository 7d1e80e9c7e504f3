"""What all tests share: parts of the machine that a test may need, by name, and who is signed in."""

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from django.db.backends.sqlite3.operations import DatabaseOperations

from chamber import live

PARTS: dict[str, Callable[[], str | None]] = {"chromium": lambda: shutil.which("chromium")}
REQUIRED = {part for part in os.environ.get("CHAMBER_TEST_REQUIRE", "").split(",") if part}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip by name what needs a part that this machine lacks, unless CHAMBER_TEST_REQUIRE names it."""
    lacking = {part for part, found in PARTS.items() if not found() and part not in REQUIRED}
    for item in items:
        for part in lacking & {mark.name for mark in item.iter_markers()}:
            item.add_marker(pytest.mark.skip(reason=f"this machine lacks {part}"))


def pytest_configure() -> None:
    """Refuse a required part that nobody knows: a spelling mistake would skip in silence."""
    unknown = REQUIRED - PARTS.keys()
    if unknown:
        allowed = ", ".join(sorted(PARTS))
        raise pytest.UsageError(
            f"CHAMBER_TEST_REQUIRE names {', '.join(sorted(unknown))}; allowed: {allowed}."
        )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in the last lines which parts were missing and how many tests that left out."""
    reasons = Counter(
        str(report.longrepr[2]).removeprefix("Skipped: ") if isinstance(report.longrepr, tuple) else "a skip"
        for report in terminalreporter.stats.get("skipped", [])
    )
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"Left out, because {reason}: {count} tests.", yellow=True)


@pytest.fixture(autouse=True)
def _fresh_topics() -> Iterator[None]:
    """Versions of live topics do not leak from one test into the next."""
    yield
    live._versions.clear()


@pytest.fixture(autouse=True)
def _quick_passwords(settings: object) -> None:
    """Passwords hashed quickly: tests sign in often and guard no secrets."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # type: ignore[attr-defined]


@pytest.fixture(scope="session", autouse=True)
def _append_only_tables_are_emptied_between_tests() -> Iterator[None]:
    """On SQLite, triggers refuse to empty the tables of events: they are set aside while a test's rows are removed."""
    flush = DatabaseOperations.execute_sql_flush

    def without_triggers(self: DatabaseOperations, sql_list: list[str]) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
            triggers = cursor.fetchall()
            for name, _ in triggers:
                cursor.execute(f"DROP TRIGGER {name}")
            flush(self, sql_list)
            for _, sql in triggers:
                cursor.execute(sql)

    DatabaseOperations.execute_sql_flush = without_triggers  # type: ignore[method-assign,assignment]
    yield
    DatabaseOperations.execute_sql_flush = flush  # type: ignore[method-assign]
