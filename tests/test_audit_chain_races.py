"""The chain of the audit trail with many writers, sealers and checkers at once, each with a connection of its own."""

import threading
from collections.abc import Callable
from contextlib import suppress

import pytest
from django.apps import apps
from django.db import connection, transaction
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from chamber.transactions import tried_again
from teams import audit
from teams.actors import Actor
from teams.chain import duty, sealing
from teams.chain.verifying import verified
from teams.models import AuditChain, AuditCheck, AuditEvent, AuditSeal, AuditUnsealed, Team
from teams.tests.factories import make_org

pytestmark = pytest.mark.django_db(transaction=True)
WRITERS, ACTS = 4, 60


def write(team: Team, writer: int) -> None:
    """Act, now and then in a transaction that is undone."""
    for number in range(ACTS):
        with transaction.atomic():
            after = {"writer": writer, "number": number}
            audit.record(by=Actor.system(f"writer {writer}"), action="team.edited", target=team, after=after)
            if number % 10 == 9:
                transaction.set_rollback(True)


def in_threads(*acts: Callable[[], object]) -> list[BaseException]:
    """Run all at once; return what they raised."""
    raised: list[BaseException] = []

    def run(act: Callable[[], object]) -> None:
        try:
            tried_again("act", act)
        except BaseException as error:
            raised.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    return raised


def test_four_writers_and_two_sealers_make_one_chain_without_a_gap() -> None:
    team, done = make_org(), threading.Event()

    def seal() -> None:
        while not done.is_set():
            sealing.seal(for_seconds=0.1)
            done.wait(0.01)

    def look() -> None:
        while not done.is_set():
            assert not duty.look(timezone.now()).fault
            done.wait(0.05)

    def writers() -> None:
        try:
            assert not in_threads(*(lambda writer=writer: write(team, writer) for writer in range(WRITERS)))
        finally:
            done.set()

    assert in_threads(writers, seal, seal, look) == []
    sealing.seal()
    expected = WRITERS * ACTS * 9 // 10
    assert AuditEvent.objects.count() == AuditSeal.objects.count() == expected
    assert not AuditUnsealed.objects.exists()
    result = verified()
    assert (result["fault"], result["rows"]) == ("", expected)
    # Those of one writer are in its order.
    for writer in range(WRITERS):
        rows = AuditEvent.objects.filter(actor=f"writer {writer}").order_by("seal__number")
        numbers = [row.after["number"] for row in rows]
        assert numbers == sorted(numbers)


def test_an_upgrade_seals_the_rows_that_are_there_and_those_of_older_processes() -> None:
    executor = MigrationExecutor(connection)
    chained = next(key for key in executor.loader.graph.nodes if key[1].endswith("_audit_is_chained"))
    before = [key for key in executor.loader.get_migration(*chained).dependencies if key[0] == "teams"]
    target = [node for node in executor.loader.graph.leaf_nodes() if node[0] == "teams"]
    later = [node for node in executor.loader.graph.leaf_nodes() if node[0] != "teams"]
    executor.migrate(before)
    try:
        old = executor.loader.project_state(before).apps.get_model("teams", "AuditEvent")
        values = {
            "via": "page",
            "action": "team.edited",
            "target_kind": "team",
            "target_id": "x",
            "target_name": "NLP",
        }
        rows = [old.objects.create(at=timezone.now(), actor=f"old {number}", **values) for number in range(3)]
    finally:
        executor = MigrationExecutor(connection)
        executor.migrate([*target, *later])
    assert AuditChain.objects.get().has_older
    # A process of the version before knows no mark.
    beside = old.objects.create(at=timezone.now(), actor="old 3", **values)
    audit.record(by=Actor.system("new"), action="team.edited", target=Team(name="X"))
    sealing.seal()
    assert list(AuditEvent.objects.order_by("seal__number").values_list("actor", flat=True)) == [
        *(row.actor for row in rows),
        beside.actor,
        "new",
    ]
    assert verified()["holds"]
    assert apps.get_model("teams", "AuditCheck") is AuditCheck
    with suppress(AuditChain.DoesNotExist):
        AuditChain.objects.get().delete()
