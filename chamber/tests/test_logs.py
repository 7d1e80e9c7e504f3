"""The log's two forms, and what is bound to its records."""

import asyncio
import io
import json
import logging
import logging.config
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from chamber import logs


@pytest.fixture
def lines() -> Iterator[dict[str, io.StringIO]]:
    """Both forms of what is logged by `quiet`, a logger of this test's own."""
    written, handlers = {}, []
    logger = logging.getLogger("quiet")
    for form in logs.FORMS:
        chosen = logs.configuration(form, "INFO")
        configurator = logging.config.DictConfigurator(chosen)
        written[form] = io.StringIO()
        handler = logging.StreamHandler(written[form])
        handler.setFormatter(configurator.configure_formatter(chosen["formatters"]["chosen"]))
        handler.addFilter(logs.Bound())
        logger.addHandler(handler)
        handlers.append(handler)
    yield written
    for handler in handlers:
        logger.removeHandler(handler)


def test_what_is_bound_stands_behind_the_message_for_people(lines: dict[str, io.StringIO]) -> None:
    with logs.bind(cycle=12), logs.bind(workload="bert-x7k2qd"):
        logging.getLogger("quiet").warning("It cannot be read.")
    assert (
        lines["line"].getvalue().endswith(" WARNING quiet It cannot be read. cycle=12 workload=bert-x7k2qd\n")
    )


def test_a_record_for_programs_has_every_field(lines: dict[str, io.StringIO]) -> None:
    with logs.bind(cluster="alpha"):
        logging.getLogger("quiet").error("GPUs of %s – gone.", "alpha")
    record = json.loads(lines["json"].getvalue())
    assert record.pop("time").endswith("+00:00")
    assert record == {
        "level": "ERROR",
        "logger": "quiet",
        "message": "GPUs of alpha – gone.",
        "request_id": "",
        "cycle": "",
        "workload": "",
        "attempt": "",
        "cluster": "alpha",
    }


def test_a_fault_is_one_record_with_its_traceback(lines: dict[str, io.StringIO]) -> None:
    try:
        raise ValueError("seven")
    except ValueError:
        logging.getLogger("quiet").exception("It failed.", extra={"request": object(), "status_code": 500})
    [line] = lines["json"].getvalue().splitlines()
    record = json.loads(line)
    assert record["traceback"].endswith("ValueError: seven")
    assert record["status_code"] == 500
    assert "request" not in record


def test_what_was_bound_outside_holds_again_after_a_block() -> None:
    with logs.bind(request_id="outer"):
        with logs.bind(request_id="inner"):
            assert logs.bound("request_id") == "inner"
        assert logs.bound("request_id") == "outer"
    assert logs.bound("request_id") == ""


async def test_what_is_bound_to_a_task_stays_with_it_and_those_that_it_begins() -> None:
    async def named(name: str) -> tuple[str, str]:
        logs.bind_task(cluster=name)
        await asyncio.sleep(0)
        return logs.bound("cluster"), await asyncio.create_task(heard())

    async def heard() -> str:
        return logs.bound("cluster")

    said = list(await asyncio.gather(named("east"), named("west")))
    assert said == [("east", "east"), ("west", "west")]
    assert logs.bound("cluster") == ""


def test_what_is_said_seldom_is_due_once_in_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("chamber.logs.time.monotonic", lambda: now[0])
    seldom = logs.Seldom(every_seconds=10)
    found = []
    for now[0] in (0.0, 5.0, 9.9, 10.0, 12.0, 25.0):
        found.append(seldom.due())

    assert found == [True, False, False, True, False, True]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(logs, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_what_fails_again_and_again_is_said_at_its_begin_every_five_minutes_and_at_its_end(
    clock: list[float],
) -> None:
    lasting = logs.Lasting()
    assert lasting.over() is None
    said = []
    for _ in range(601):
        said += [clock[0] - 1000] if lasting.due("refused") else []
        clock[0] += 1
    assert said == [0, 300, 600]
    assert (lasting.over(), lasting.over()) == (601, None)
    assert lasting.due("refused")


def test_another_reason_is_said_and_not_any_number_of_them(clock: list[float]) -> None:
    lasting = logs.Lasting()
    assert [lasting.due(why) for why in ("refused", "late", "refused", "late")] == [True, True, False, False]
    assert sum(lasting.due(f"refused {number}") for number in range(100)) == logs.MOST_REASONS - 2


def test_where_nothing_says_that_it_succeeded_it_is_over_after_a_quiet_while(clock: list[float]) -> None:
    lasting = logs.Lasting()
    for _ in range(3):
        lasting.due("fault")
        clock[0] += 10
    assert lasting.over(quiet_seconds=20) is None
    clock[0] += 10
    assert lasting.over(quiet_seconds=20) == 20
    assert lasting.over(quiet_seconds=20) is None
