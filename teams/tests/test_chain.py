"""The chain of the audit trail: what is sealed, in which order, and what a check says of tables that were changed."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone
from pytest_django.fixtures import Settings

from chamber.ids import new_id
from teams import audit, retention
from teams.actors import Actor
from teams.chain import checking, duty, sealing
from teams.chain.events import content_of, keyring
from teams.chain.rows import ChainHead, canonical, digest
from teams.chain.verifying import verified
from teams.models import AuditChain, AuditCheck, AuditEvent, AuditSeal, AuditUnsealed
from teams.tests.chains import acts, unguarded
from teams.tests.conftest import Acme
from teams.tests.test_retention import DAY, audited

pytestmark = pytest.mark.django_db


def fault() -> str:
    return str(verified()["fault"])


def test_rows_are_sealed_in_their_order_and_the_chain_holds(acme: Acme) -> None:
    rows = acts(acme.nlp, 5)
    assert list(AuditSeal.objects.values_list("number", "event_id")) == [
        (number, row.pk) for number, row in enumerate(rows, start=1)
    ]
    assert not AuditUnsealed.objects.exists()
    found, head = verified(), sealing.head_of(checking.present())
    assert (found["rows"], found["holds"], found["head"]) == (5, True, f"5:{head.digest}")


def test_what_was_not_committed_is_never_sealed(acme: Acme) -> None:
    with transaction.atomic():
        acts(acme.nlp, 1, sealed=False)
        transaction.set_rollback(True)
    assert sealing.seal() == 0


def test_many_rows_are_sealed_and_checked_in_batches(acme: Acme, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "BATCH", 2)
    monkeypatch.setattr(checking, "ROWS", 2)
    acts(acme.nlp, 5)
    assert (verified()["rows"], fault()) == (5, "")


def test_a_row_as_it_is_written_is_the_row_as_it_is_read(acme: Acme) -> None:
    after: dict[Any, Any] = {
        "a": 1.0,
        "b": 1e20,
        "c": 0.1,
        "d": -0.0,
        "e": [1, (2.5, None)],
        "ü": "é\u2028",
        3: {True: False},
    }
    event = audit.record(by=Actor.system("test"), action="team.edited", target=acme.nlp, after=after)
    assert content_of(AuditEvent.objects.get(pk=event.pk)) == content_of(event)
    sealing.seal()
    assert not fault()


def test_a_column_that_is_empty_changes_no_digest() -> None:
    assert canonical({"a": 1, "later": None}) == canonical({"a": 1}) == b'{"a":1}'


def test_a_changed_row_is_named(acme: Acme) -> None:
    rows = acts(acme.nlp, 3)
    with unguarded():
        AuditEvent.objects.filter(pk=rows[1].pk).update(actor="nobody")
    assert fault().startswith(f"Row 2 ({rows[1].pk}) was changed after it was sealed")


def test_a_row_that_was_changed_with_its_seal_and_all_after_it_is_named(acme: Acme) -> None:
    rows = acts(acme.nlp, 3)
    with unguarded():
        AuditEvent.objects.filter(pk=rows[1].pk).update(actor="nobody")
        head = ChainHead(1, AuditSeal.objects.get(number=1).digest)
        for seal in AuditSeal.objects.filter(number__gt=1).select_related("event"):
            head = ChainHead(seal.number, digest(head.digest, seal.number, content_of(seal.event)))
            AuditSeal.objects.filter(pk=seal.pk).update(digest=head.digest)
        AuditChain.objects.update(digest=head.digest)
    assert fault() == (
        f"Row 2 ({rows[1].pk}) was inserted, or changed together with its seal: Chamber did not make that."
    )


def test_a_row_that_is_missing_in_the_middle_is_named(acme: Acme) -> None:
    rows = acts(acme.nlp, 4)
    with unguarded():
        AuditEvent.objects.filter(pk=rows[1].pk).delete()
    assert fault().startswith("Row 2 is missing: it was sealed")
    with unguarded():
        AuditSeal.objects.filter(number=2).delete()
    assert fault() == "Row 2 is missing, seal included."


def test_rows_that_are_missing_at_the_end_are_named_also_where_the_head_was_set_back(acme: Acme) -> None:
    rows = acts(acme.nlp, 4)
    known = sealing.head_of(checking.present())
    assert not verified(known)["fault"]
    assert "written anew" in verified(ChainHead(4, "0" * 64))["fault"]
    duty.look(timezone.now())
    with unguarded():
        AuditEvent.objects.filter(pk__in=[rows[2].pk, rows[3].pk]).delete()
        AuditSeal.objects.filter(number__gt=2).delete()
    assert fault() == "Rows 3 to 4 are missing at the end, seal included."
    second = AuditSeal.objects.get(number=2)
    AuditChain.objects.update(number=2, digest=second.digest)
    assert fault() == "", "nothing in the tables tells any more; who knows the head can"
    assert verified(known)["fault"] == f"Row 4 is missing: the chain was longer when its head was {known}."
    assert duty.look(timezone.now()).fault == (
        "Rows 3 to 4 are missing: the chain ends at row 2, and was longer."
    )


def test_a_row_inserted_by_other_hands_is_named_sealed_or_not(acme: Acme) -> None:
    acts(acme.nlp, 2)
    values = {"at": timezone.now(), "actor": "x", "via": "api", "action": "team.edited", "target_name": "NLP"}
    inserted = AuditEvent.objects.create(**values)
    sealing.seal()
    assert not AuditSeal.objects.filter(event=inserted).exists()
    assert fault() == (
        f"The row {inserted.pk} was inserted or changed: "
        "Chamber did not write it, or it was changed before it was sealed."
    )
    AuditUnsealed.objects.all().delete()
    assert fault() == f"The row {inserted.pk} was inserted: it is in the trail and not in its chain."
    chain = AuditChain.objects.get()
    forged = digest(chain.digest, 3, content_of(inserted))
    AuditSeal.objects.create(
        number=3, event=inserted, digest=forged, mac=f"{'0' * 8}:{'0' * 64}", at=timezone.now()
    )
    assert fault() == "Row 3 was inserted: the chain ends at row 2."
    AuditChain.objects.update(number=3, digest=forged)
    assert fault().startswith("Row 3 was signed with the key '00000000', which this server does not have")


def test_a_row_that_was_changed_before_it_was_sealed_is_refused_and_those_behind_it_are_sealed(
    acme: Acme,
) -> None:
    changed, other = acts(acme.nlp, 2, sealed=False)
    with unguarded():
        AuditEvent.objects.filter(pk=changed.pk).update(actor="nobody")
    sealing.seal()
    assert [seal.event_id for seal in AuditSeal.objects.all()] == [other.pk]
    assert str(changed.pk) in fault()


def test_swapped_rows_are_out_of_order(acme: Acme) -> None:
    rows = acts(acme.nlp, 4)
    with unguarded():
        AuditSeal.objects.filter(number=2).update(event=new_id())
        AuditSeal.objects.filter(number=3).update(event=rows[1].pk)
        AuditSeal.objects.filter(number=2).update(event=rows[2].pk)
    assert fault() == f"Row 2 ({rows[2].pk}) is out of order: its place is that of row 3."


def test_rows_that_were_deleted_because_of_their_age_leave_a_chain_that_holds(acme: Acme) -> None:
    old = [audited(acme, days) for days in (500, 450, 400)]
    acts(acme.nlp, 2)
    before = retention.move_horizon(timezone.now() - 70 * DAY)
    assert retention.forget_audit(before) == 2
    assert not AuditEvent.objects.filter(pk__in=[row.pk for row in old[:2]]).exists()
    chain = AuditChain.objects.get()
    assert (chain.anchor_number, chain.number) == (2, 5)
    assert list(AuditSeal.objects.values_list("number", flat=True)) == [3, 4, 5]
    assert (verified()["rows"], verified()["first"]) == (3, 3)
    acts(acme.nlp, 1)
    assert not fault()


def test_rows_that_others_deleted_at_the_beginning_are_told_from_old_ones(acme: Acme) -> None:
    acts(acme.nlp, 3)
    first = AuditSeal.objects.get(number=1)
    with unguarded():
        AuditEvent.objects.filter(pk=first.event_id).delete()
        AuditSeal.objects.filter(number=1).delete()
        AuditChain.objects.update(anchor_number=1, anchor_digest=first.digest, anchor_mac=first.mac)
    assert fault() == "The rows 1 to 1 are missing: they were not deleted by Chamber because of their age."


def test_the_database_refuses_that_seals_change_or_go_before_their_rows(acme: Acme) -> None:
    acts(acme.nlp, 2)
    with pytest.raises(IntegrityError, match="Seals of the audit trail"), transaction.atomic():
        AuditSeal.objects.filter(number=1).update(digest="0" * 64)
    with pytest.raises(IntegrityError, match="Seals of the audit trail"), transaction.atomic():
        AuditSeal.objects.filter(number=1).delete()


def test_rows_from_before_the_chain_are_sealed_by_their_time_in_batches(
    acme: Acme, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "BATCH", 2)
    rows = acts(acme.nlp, 5, sealed=False)
    with unguarded():  # as the version before wrote them
        AuditEvent.objects.update(mark=None)
    AuditUnsealed.objects.all().delete()
    AuditChain.objects.create(pk=1, has_older=True)
    [new] = acts(acme.nlp, 1, sealed=False)
    assert not checking.strangers(), "they wait"
    sealing.seal()
    assert [seal.event_id for seal in AuditSeal.objects.all()] == [row.pk for row in [*rows, new]]
    assert not AuditChain.objects.get().has_older
    assert not fault()


def test_rows_of_the_version_before_are_taken_for_a_day(acme: Acme) -> None:
    acts(acme.nlp, 2, sealed=False)
    with unguarded():
        AuditEvent.objects.update(mark=None)
    AuditChain.objects.create(pk=1, unmarked_until=timezone.now() - timedelta(seconds=1))
    sealing.seal()
    assert not AuditSeal.objects.exists()
    AuditChain.objects.update(unmarked_until=F("unmarked_until") + timedelta(days=1))
    sealing.try_refused_again()
    sealing.seal()
    assert AuditSeal.objects.count() == 2


def test_a_key_that_was_used_before_proves_what_it_signed_and_is_asked_for_where_it_is_not_named(
    acme: Acme, settings: Settings
) -> None:
    settings.AUDIT_KEY = "first"
    acts(acme.nlp, 1)
    name = next(iter(keyring().keys))
    settings.AUDIT_KEY, settings.AUDIT_KEYS_BEFORE = "second", ("first",)
    acts(acme.nlp, 1)
    assert not fault()
    settings.AUDIT_KEYS_BEFORE = ()
    assert fault() == (
        f"Row 1 was signed with the key '{name}', which this server does not have: name it in "
        "CHAMBER_AUDIT_KEYS_BEFORE, or Chamber did not sign it."
    )


def test_without_a_key_of_its_own_the_secret_key_signs(settings: Settings) -> None:
    settings.AUDIT_KEY, settings.SECRET_KEY = "", "s" * 50
    derived = keyring()
    settings.AUDIT_KEY = "s" * 50
    assert keyring() == derived


def test_the_duty_checks_what_is_new_and_the_whole_once_a_day(acme: Acme) -> None:
    rows, now = acts(acme.nlp, 3), timezone.now()
    first = duty.look(now)
    assert (first.number, first.fault, first.whole_at) == (3, "", now)
    with unguarded():
        AuditEvent.objects.filter(pk=rows[0].pk).update(actor="nobody")
    acts(acme.nlp, 1)
    assert duty.look(now + duty.WHOLE_EVERY / 2).number == 4
    late = duty.look(now + duty.WHOLE_EVERY)
    assert late.fault.startswith("Row 1")
    assert late.whole_at == now
    with unguarded():
        AuditEvent.objects.filter(pk=rows[0].pk).update(actor="test")
    assert not duty.look(now + duty.WHOLE_EVERY).fault, "it looks again"


def test_the_duty_goes_on_next_time_where_its_seconds_have_passed(
    acme: Acme, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "ROWS", 2)
    monkeypatch.setattr(duty, "CHECKS_FOR_SECONDS", 0.0)
    acts(acme.nlp, 5)
    now = timezone.now()
    assert [duty.look(now).number for _ in range(3)] == [2, 4, 5]
    assert duty.look(now).whole_at == now
    assert AuditCheck.objects.get().whole_began_at is None


def test_a_lost_head_is_told_and_nothing_is_sealed_anew(acme: Acme) -> None:
    acts(acme.nlp, 2)
    AuditChain.objects.all().delete()
    acts(acme.nlp, 1, sealed=False)
    with pytest.raises(sealing.HeadLost):
        sealing.seal()
    assert duty.look(timezone.now()).fault == "The row that says where the chain ends is missing."
