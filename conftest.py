"""What all tests share: parts of the machine that a test may need, by name, and who is signed in."""

import functools
import math
import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import urlsplit

import hypothesis
import pytest
from django.conf import settings
from django.core.cache import caches
from django.db import connection
from django.test import override_settings
from pytest_django import DjangoDbBlocker
from xdist.remote import Producer

from chamber import live, sessions
from chamber.collecting import keep_what_is_loaded, without_collecting
from chamber.live import shared
from chamber.middleware import StaticFilesMiddleware
from rig import answers, emptying, kubernetes, migrated, namespaces, processes, servers, spreading
from scheduling.explain import silence, submission
from teams import sight, sign_in
from workloads import known

PARTS: dict[str, Callable[[], object]] = {
    "chromium": lambda: shutil.which("chromium"),
    "postgres": servers.postgresql_folder,
    "redis": servers.redis_program,
    "nginx": servers.nginx_program,
    "promtool": lambda: shutil.which("promtool"),
    "kube": lambda: os.environ.get("CHAMBER_TEST_KUBECONFIG") or kubernetes.programs(),
}
CORE_MINUTES = 26
"""What all tests take of a core, with every part there."""
PATIENCE_SECONDS = 60.0
MOST_IN_USE = 3
"""Of the pool's connections between two tests: the test process itself needs one."""
VENDORS = {"sqlite": "sqlite", "postgresql": "postgres"}
# How long an example takes says more of the machine than of the code.
hypothesis.settings.register_profile(
    "chamber", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow], print_blob=True
)
hypothesis.settings.load_profile("chamber")

REQUIRED = {part for part in os.environ.get("CHAMBER_TEST_REQUIRE", "").split(",") if part}


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Read all tests without collecting garbage, and never walk over them again. Of several processes each begins with
    another folder: what one has compiled the others need not.
    """
    config = session.config
    if hasattr(config, "workerinput"):
        number = int(config.workerinput["workerid"].removeprefix("gw"))
        first = number * len(config.args) // config.workerinput["workercount"]
        config.args = [*config.args[first:], *config.args[:first]]
    with without_collecting():
        result = yield
    keep_what_is_loaded()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, object, object]:
    """Mark what uses the database. Of what is chosen, leave out what is about the other database, and skip by name
    what needs a part that this machine lacks, unless CHAMBER_TEST_REQUIRE names it.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: item.nodeid.partition("::")[0])  # the same in each process
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if item.get_closest_marker("django_db") or fixtures & {"db", "transactional_db"}:
            item.add_marker("stores")
    result = yield
    other = ({"sqlite_only", "postgres_only"} - {f"{VENDORS[connection.vendor]}_only"}).pop()
    elsewhere = [item for item in items if item.get_closest_marker(other)]
    if elsewhere:
        items[:] = [item for item in items if not item.get_closest_marker(other)]
        config.hook.pytest_deselected(items=elsewhere)
    if "PYTEST_XDIST_WORKER" in os.environ:
        items[:] = spreading.in_order(items)
    lacking = {part for part, found in PARTS.items() if not found() and part not in REQUIRED}
    for item in items:
        for part in lacking & {mark.name for mark in item.iter_markers()}:
            item.add_marker(pytest.mark.skip(reason=f"this machine lacks {part}"))
    return result


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> spreading.Spreading:
    """Spread the tests over processes by files, in the order in which they are."""
    config.option.loadscopereorder = False
    return spreading.Spreading(config, log)


def pytest_xdist_auto_num_workers() -> int:
    """Return how many processes `-n auto` starts: two more than there are cores, since many tests wait for servers."""
    return _cores() + 2


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say before a run of everything how long it takes, and what the machine lacks."""
    if config.args_source is not pytest.Config.ArgsSource.TESTPATHS or config.option.markexpr:
        return []
    processes = config.option.numprocesses or 1
    minutes = math.ceil(CORE_MINUTES / min(processes, _cores()))
    lacking = ", ".join(sorted(part for part, found in PARTS.items() if not found())) or "nothing"
    return [f"all tests: about {minutes} minutes on {processes} processes; this machine lacks {lacking}"]


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a required part that nobody knows: a spelling mistake would skip in silence."""
    # A shell that runs this in the background has it ignore interrupts, and so all programs that tests start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in VENDORS.values():
        config.addinivalue_line("markers", f"{name}_only: is about that database; deselected on the other")
    unknown = REQUIRED - PARTS.keys()
    if unknown:
        allowed = ", ".join(sorted(PARTS))
        raise pytest.UsageError(
            f"CHAMBER_TEST_REQUIRE names {', '.join(sorted(unknown))}; allowed: {allowed}."
        )
    _share_no_redis(os.environ.get("PYTEST_XDIST_WORKER", ""))
    processes.Forking.begin()
    _wait_for_servers()


def _share_no_redis(worker: str) -> None:
    """Give each of several test processes names of its own in the one Redis: no test hears another's announcements.

    And a database of its own for its cache, since clearing a cache empties the database it lies in.
    """
    if settings.REDIS:
        # No thread of this process rings behind a test's back; `scheduling.cycle.wake_ups` has tests of its own.
        settings.CHAMBER_RING = "chamber.embedded.ring"
        settings.CHANNEL_LAYERS["default"]["CONFIG"]["prefix"] += worker
        number = int(worker.removeprefix("gw") or 0) % 15  # of the 16 databases a Redis has
        settings.CACHES["default"]["LOCATION"] = (
            urlsplit(settings.REDIS)._replace(path=f"/{number + 1}").geturl()
        )


def _wait_for_servers() -> None:
    """Have PostgreSQL and Redis waited for as long as a loaded machine may need: that is no outage.

    Tests of outages have servers of their own, and set the times that they are about.
    """
    pool = settings.DATABASES["default"].get("OPTIONS", {}).get("pool")
    if pool:
        pool["timeout"] = PATIENCE_SECONDS
        settings.DATABASES["default"]["OPTIONS"]["connect_timeout"] = int(PATIENCE_SECONDS)
    if settings.REDIS:
        options = settings.CACHES["default"]["OPTIONS"]
        options["socket_timeout"] = options["socket_connect_timeout"] = PATIENCE_SECONDS
    shared.SECONDS = PATIENCE_SECONDS


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in the last lines which parts were missing and how many tests that left out."""
    reasons = Counter(
        str(report.longrepr[2]).removeprefix("Skipped: ") if isinstance(report.longrepr, tuple) else "a skip"
        for report in terminalreporter.stats.get("skipped", [])
    )
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"Left out, because {reason}: {count} tests.", yellow=True)


@pytest.fixture(scope="session")
def control_plane(run_folder: Path) -> Iterator[Path]:
    """Give the kubeconfig of a real Kubernetes: CHAMBER_TEST_KUBECONFIG's, else of one that the whole run shares."""
    given = os.environ.get("CHAMBER_TEST_KUBECONFIG")
    if given:
        yield Path(given)
        return
    with kubernetes.shared(run_folder / "kube") as kubeconfig:
        yield kubeconfig


@pytest.fixture
def namespace(control_plane: Path) -> Iterator[namespaces.Namespace]:
    """Give the test a namespace of its own; nodes, pods and all else of it are gone afterwards."""
    with namespaces.namespace(control_plane) as made:
        yield made


@pytest.fixture(autouse=True)
def _tests_begin_alike(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have a process remember nothing of the test before, and what it asks now and then be asked already.

    One fixture, since each costs every test. Asked already is what pages ask once a second (few tests run the cycles
    that would keep them from saying that none ends; `silence.forget` has it asked anew), every two seconds
    (`sign_in.forget`), of a session once a minute (but in tests marked `notes_sessions`), and once for all who see the
    same teams (but in tests marked `reads_tree`).
    """
    silence._kept = (math.inf, silence.Silence())
    caches["process"].set(sign_in.ASKED, (None,), None)
    if "notes_sessions" not in request.keywords:
        monkeypatch.setattr(sessions, "is_due", lambda _: False)
    if "reads_tree" not in request.keywords:
        monkeypatch.setattr(sight, "_teams", lru_cache(lambda _paths, _version: "known"))
    yield
    live.forget()
    known.forget()
    submission.forget()
    caches["process"].clear()
    _give_up_leaked_connections()


def _give_up_leaked_connections() -> None:
    """Give the pool up where threads that ended with their event loop have taken its connections along."""
    pool = getattr(connection, "_connection_pools", {}).get(connection.alias)
    if pool is not None:
        counts = pool.get_stats()
        if counts["pool_size"] - counts["pool_available"] > MOST_IN_USE:
            connection.close_pool()  # type: ignore[attr-defined]


@pytest.fixture(scope="session", autouse=True)
def _many_requests_and_quick_passwords() -> Iterator[None]:
    """Tests ask very often from one address: requests and submissions are bounded in those of `chamber.limits` only.

    Passwords are hashed quickly: tests sign in often and guard no secrets.
    """
    hashers = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    bounded = ("person", "token", "parts", "address", "anonymous", "submissions", "open")
    with (
        mock.patch.dict(settings.LIMITS, dict.fromkeys(bounded, 0)),
        override_settings(PASSWORD_HASHERS=hashers),
    ):
        yield


@pytest.fixture(scope="session", autouse=True)
def _static_files_are_listed_once() -> Iterator[None]:
    """Every test client makes its middleware anew: the list of static files is that of the first one."""
    listing = StaticFilesMiddleware.add_files_from_finders
    files: dict[str, object] = {}

    def listed(self: Any) -> None:
        if not files:
            listing(self)
            files.update(self.files)
        self.files.update(files)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StaticFilesMiddleware, "add_files_from_finders", listed)
        yield


@pytest.fixture(scope="session", autouse=True)
def _answers_are_as_the_document_says() -> Iterator[None]:
    """Whatever a test is about: what the API answers it is what docs/openapi.yaml says."""
    with answers.held_against(functools.cache(answers.Document)):
        yield


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that all processes of a run share."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None,  # noqa: ARG001
    run_folder: Path,
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[None]:
    """Of several processes only one migrates, the others copy. What SQLite has beside its file goes with it."""
    with ExitStack() as stack:
        if "PYTEST_XDIST_WORKER" in os.environ:
            folder = run_folder / "migrated"
            stack.enter_context(migrated.copied(connection, folder, django_db_blocker.unblock))
        yield
    if connection.vendor == "sqlite":
        for beside in ("-wal", "-shm"):
            Path(f"{settings.DATABASES['default']['TEST']['NAME']}{beside}").unlink(missing_ok=True)


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:  # noqa: ARG001
    """Before a database of PostgreSQL is dropped, end what threads of event loops have left connected to it."""
    yield
    if connection.vendor != "postgresql":
        return
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


@pytest.fixture(scope="session", autouse=True)
def _tables_are_emptied_quickly() -> Iterator[None]:
    """After a test that has committed; with the append-only tables, which triggers refuse to empty."""
    with emptying.quickly(connection):
        yield
