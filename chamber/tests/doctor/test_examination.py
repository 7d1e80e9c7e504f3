"""The order of the checks: what cannot be looked at is left out, and a check that fails is a finding."""

from collections.abc import Iterator
from dataclasses import replace

from chamber.doctor.examination import CHECKS, examine
from chamber.doctor.finding import Check, DoctorFinding, Needs


def well() -> Iterator[DoctorFinding]:
    yield from ()


def wrong() -> Iterator[DoctorFinding]:
    yield DoctorFinding("It is wrong.", "Mend it.")


def broken() -> Iterator[DoctorFinding]:
    raise RuntimeError("seven")
    yield


def test_what_needs_something_that_is_wrong_is_left_out() -> None:
    checks = (
        Check("database", wrong, gives=Needs.DATABASE),
        Check("tables", well, Needs.DATABASE, gives=Needs.TABLES),
        Check("marks", well, Needs.TABLES),
        Check("redis", well, gives=Needs.REDIS),
        Check("layer", well, Needs.REDIS, also=Needs.TABLES),
    )
    result = examine(checks)
    assert result.findings == [("database", DoctorFinding("It is wrong.", "Mend it."))]
    assert (result.made, result.left_out) == (["database", "redis"], ["tables", "marks", "layer"])
    assert result.lacks == dict.fromkeys(result.left_out, Needs.DATABASE), (
        "what is wrong, not what follows from it"
    )


def test_of_beat_and_scheduler_nothing_is_said_while_their_queue_cannot_be_read() -> None:
    needed = {check.name: {check.needs, check.also} for check in CHECKS}
    assert all(Needs.REDIS in needed[name] for name in ("duties", "scheduler"))


def test_of_sockets_nothing_is_said_while_the_database_is_what_keeps_them_shut() -> None:
    looks = {"database": wrong, "address": well}
    names = {"database", "migrations", "tables", "live", "address", "sockets"}
    checks = [check for check in CHECKS if check.name in names]
    result = examine([replace(check, look=looks.get(check.name, broken)) for check in checks])
    assert [name for name, _ in result.findings] == ["database"]
    assert result.lacks["sockets"] == Needs.DATABASE


def test_agents_are_not_accused_where_the_server_cannot_be_reached() -> None:
    there = {Needs.DATABASE, Needs.MIGRATIONS, Needs.TABLES}

    def examined(failing: str) -> list[str]:
        named = [check for check in CHECKS if check.name in {"live", "address", "sockets", "heartbeats"}]
        named = [
            replace(check, look=wrong if check.name in {failing, "heartbeats"} else well) for check in named
        ]
        given = [Check(need, well, gives=need) for need in there]
        return [name for name, _ in examine([*given, *named]).findings]

    assert [examined(cause) for cause in ("live", "address", "sockets")] == [
        ["live"],
        ["address"],
        ["sockets"],
    ]
    assert examined("") == ["heartbeats"]


def test_a_check_that_fails_says_so_and_the_others_go_on() -> None:
    result = examine((Check("first", broken), Check("second", wrong)))
    [(name, finding), _] = result.findings
    assert (name, finding.problem) == ("first", "The check 'first' failed: RuntimeError: seven.")


def test_names_come_once_and_everything_needed_is_given_before() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    given = {Needs.NOTHING}
    for check in CHECKS:
        assert {check.needs, check.also} <= given
        given |= {check.gives} if check.gives else set()
