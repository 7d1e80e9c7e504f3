"""Accepting a fault of the chain: only that one, by a row of the trail, and what lies behind it is checked again."""

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone
from pytest_django.fixtures import Settings

from chamber.errors import Conflict, Refusal
from chamber.ids import new_id
from teams import audit, retention
from teams.actors import Actor, Via
from teams.chain import checking, duty, faults, sealing
from teams.chain.accepting import accept, first_fault
from teams.chain.events import content_of, keyring
from teams.chain.rows import ChainHead, digest
from teams.chain.verifying import verified
from teams.models import AuditChain, AuditCheck, AuditEvent, AuditSeal, AuditUnsealed
from teams.tests.chains import acts, unguarded
from teams.tests.conftest import Acme
from teams.tests.test_retention import DAY, audited

pytestmark = pytest.mark.django_db
OLGA = Actor(name="console", via=Via.SYSTEM, on_behalf_of="olga")
REASON = "deleted by hand, ticket 12"


def accepted(reason: str = REASON) -> faults.Fault | None:
    """Accept the first fault; return what does not hold behind it."""
    return accept(by=OLGA, name=str(verified()["fault_name"]), reason=reason)[1]


def change(row: AuditEvent, actor: str) -> None:
    with unguarded():
        AuditEvent.objects.filter(pk=row.pk).update(actor=actor)


def swap(rows: list[AuditEvent]) -> None:
    AuditSeal.objects.filter(number=2).update(event=new_id())
    AuditSeal.objects.filter(number=3).update(event=rows[1].pk)
    AuditSeal.objects.filter(number=2).update(event=rows[2].pk)


def change_with_its_seal(rows: list[AuditEvent]) -> None:
    AuditEvent.objects.filter(pk=rows[1].pk).update(actor="nobody")
    before = AuditSeal.objects.get(number=1)
    content = content_of(AuditEvent.objects.get(pk=rows[1].pk))
    AuditSeal.objects.filter(number=2).update(digest=digest(before.digest, 2, content))


def lose(rows: list[AuditEvent], *numbers: int, seals: bool = True) -> None:
    AuditEvent.objects.filter(pk__in=[rows[number - 1].pk for number in numbers]).delete()
    if seals:
        AuditSeal.objects.filter(number__in=numbers).delete()


def lose_the_beginning(rows: list[AuditEvent]) -> None:
    first = AuditSeal.objects.get(number=1)
    lose(rows, 1)
    AuditChain.objects.update(anchor_number=1, anchor_digest=first.digest, anchor_mac=first.mac)


def insert_behind_the_end(rows: list[AuditEvent]) -> None:
    inserted = AuditEvent.objects.create(
        at=timezone.now(), actor="x", via="api", action="team.edited", target_name="NLP"
    )
    AuditUnsealed.objects.filter(pk=inserted.pk).delete()
    head, keys = AuditSeal.objects.get(number=5), keyring()
    forged = digest(head.digest, 6, content_of(inserted))
    mac = keys.sign("seal", b"something else")
    AuditSeal.objects.create(number=6, event=inserted, digest=forged, mac=mac, at=timezone.now())


DAMAGE: dict[str, tuple[Callable[[list[AuditEvent]], None], int]] = {
    "a changed row": (lambda rows: change(rows[1], "nobody"), 1),
    "a row changed with its seal": (change_with_its_seal, 2),
    "swapped rows": (swap, 2),
    "a missing row": (lambda rows: lose(rows, 2, seals=False), 1),
    "missing rows with their seals": (lambda rows: lose(rows, 2, 3), 1),
    "missing rows at the end": (lambda rows: lose(rows, 4, 5), 1),
    "all rows but one": (lambda rows: lose(rows, 1, 2, 3, 4), 1),
    "a missing beginning": (lose_the_beginning, 1),
    "a seal behind the end": (insert_behind_the_end, 2),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_behind_an_accepted_fault_the_chain_holds_grows_and_is_checked(acme: Acme, what: str) -> None:
    damage, times = DAMAGE[what]
    rows = acts(acme.nlp, 5)
    with unguarded():
        damage(rows)
    assert duty.look(timezone.now()).fault
    for _ in range(times):
        assert verified()["fault"]
        accepted()
    assert (verified()["fault"], len(verified()["known_breaks"])) == ("", times)
    assert duty.look(timezone.now()).fault == ""
    later = acts(acme.nlp, 2)
    assert (verified()["fault"], duty.look(timezone.now()).fault) == ("", "")
    change(later[0], "nobody")
    assert f"({later[0].pk}) was changed after it was sealed" in verified()["fault"]


@pytest.mark.parametrize("what", DAMAGE)
def test_each_part_of_it_holds_also_where_a_check_begins_in_the_middle(
    acme: Acme, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage, times = DAMAGE[what]
    rows = acts(acme.nlp, 5)
    with unguarded():
        damage(rows)
    for _ in range(times):
        accepted()
    acts(acme.nlp, 2)
    monkeypatch.setattr(checking, "ROWS", 1)
    place, steps = None, 0
    while (found := checking.check(place, for_seconds=0.0)).head.number < present().number:
        assert found.fault is None
        place, steps = found.head, steps + 1
    assert found.fault is None
    assert steps > 1


def present() -> AuditChain:
    return AuditChain.objects.get()


def test_another_change_at_the_same_row_is_another_fault(acme: Acme) -> None:
    rows = acts(acme.nlp, 3)
    change(rows[1], "nobody")
    accepted()
    change(rows[1], "somebody")
    assert f"Row 2 ({rows[1].pk}) was changed" in verified()["fault"]
    change(rows[1], "nobody")
    assert not verified()["fault"]
    with unguarded():
        lose(rows, 2, seals=False)
    assert verified()["fault"].startswith("Row 2 is missing")


def test_more_rows_that_go_missing_beside_a_known_gap_are_another_fault(acme: Acme) -> None:
    rows = acts(acme.nlp, 6)
    with unguarded():
        lose(rows, 3)
    accepted()
    change(rows[3], "nobody")
    assert verified()["fault"] == "Row 3 is missing, seal included.", "the row behind a gap is part of it"
    change(rows[3], "test")
    assert not verified()["fault"]
    with unguarded():
        lose(rows, 4)
    assert verified()["fault"] == "Rows 3 to 4 are missing, seal included."


def test_it_is_a_row_of_the_trail_in_the_chain_and_told(acme: Acme) -> None:
    rows = acts(acme.nlp, 3)
    change(rows[1], "nobody")
    fault = first_fault()
    assert fault is not None
    assert fault.name == f"2:{fault.found}"
    accepted()
    row = AuditEvent.objects.get(action=faults.ACTION)
    assert (row.actor, row.on_behalf_of, row.after["reason"]) == ("console", "olga", REASON)
    assert (row.after["number"], row.after["found"]) == (2, fault.found)
    assert AuditSeal.objects.filter(event=row).exists()
    assert verified()["known_breaks"] == [
        f"{fault.text} Accepted by olga on {row.at:%Y-%m-%d}, because: {REASON}"
    ]
    assert duty.standing().known.words == ", but for 1 known break"
    change(row, "x")
    assert f"Row 2 ({rows[1].pk})" in verified()["fault"], "it counts as Chamber wrote it"


def test_an_acceptance_that_chamber_did_not_write_counts_for_nothing(acme: Acme) -> None:
    rows = acts(acme.nlp, 3)
    change(rows[1], "nobody")
    fault = first_fault()
    assert fault is not None
    kind, pk = faults.CHAIN
    values: dict[str, Any] = {
        "at": timezone.now(),
        "actor": "console",
        "via": "system",
        "action": faults.ACTION,
    }
    AuditEvent.objects.create(target_kind=kind, target_id=pk, after=faults.after_of(fault, "x"), **values)
    assert f"Row 2 ({rows[1].pk})" in verified()["fault"]
    assert verified()["known_breaks"] == []


def test_only_the_first_fault_and_only_as_it_was_seen_is_accepted(acme: Acme) -> None:
    rows = acts(acme.nlp, 4)
    with pytest.raises(Conflict, match="nothing to accept"):
        accept(by=OLGA, name=f"2:{'0' * 64}", reason=REASON)
    change(rows[1], "nobody")
    seen = str(verified()["fault_name"])
    change(rows[1], "somebody")
    with pytest.raises(Conflict, match=r"The first fault is 2:\w+, not 2:"):
        accept(by=OLGA, name=seen, reason=REASON)
    for reason in ("", "  ", "x" * 501, "a\x1bb"):
        with pytest.raises(Refusal, match="1 to 500"):
            accept(by=OLGA, name=str(verified()["fault_name"]), reason=reason)
    with pytest.raises(Refusal, match="1 to 150"):
        accept(by=Actor.system("console"), name=str(verified()["fault_name"]), reason=REASON)
    assert not AuditEvent.objects.filter(action=faults.ACTION).exists()


def test_the_next_fault_is_told(acme: Acme) -> None:
    rows = acts(acme.nlp, 4)
    change(rows[1], "nobody")
    change(rows[2], "nobody")
    following = accepted()
    assert following is not None
    assert f"Row 3 ({rows[2].pk}) was changed" in following.text
    assert AuditCheck.objects.get().fault == following.text
    assert accepted() is None


def test_a_row_that_chamber_did_not_write_is_sealed_as_it_is(acme: Acme) -> None:
    acts(acme.nlp, 2)
    values = {"at": timezone.now(), "actor": "x", "via": "api", "action": "team.edited", "target_name": "NLP"}
    waiting, unseen = AuditEvent.objects.create(**values), AuditEvent.objects.create(**values)
    AuditUnsealed.objects.filter(pk=unseen.pk).delete()
    sealing.seal()
    assert str(waiting.pk) in verified()["fault"]
    following = accepted()
    assert following is not None
    assert str(unseen.pk) in following.text
    assert accepted() is None
    assert AuditSeal.objects.filter(event__in=[waiting, unseen]).count() == 2
    change(unseen, "y")
    assert f"({unseen.pk}) was changed after it was sealed" in verified()["fault"]


def test_rows_signed_with_a_key_that_is_lost_are_one_fault(acme: Acme, settings: Settings) -> None:
    settings.AUDIT_KEY = "first"
    rows = acts(acme.nlp, 4)
    settings.AUDIT_KEY = "second"
    acts(acme.nlp, 2)
    assert verified()["fault"].startswith("Rows 1 to 4 were signed with the key")
    assert accepted() is None
    assert duty.look(timezone.now()).fault == ""
    change(rows[1], "nobody")
    assert f"Row 2 ({rows[1].pk}) was changed" in verified()["fault"], (
        "their digests are checked all the same"
    )


def test_a_chain_that_was_longer_when_it_was_last_checked_is_accepted(acme: Acme) -> None:
    """A backup was restored, but for the row of the last check."""
    rows = acts(acme.nlp, 5)
    duty.look(timezone.now())
    with unguarded():
        lose(rows, 4, 5)
        AuditChain.objects.update(number=3, digest=AuditSeal.objects.get(number=3).digest)
    assert duty.look(timezone.now()).fault.startswith("Rows 4 to 5 are missing: the chain ends at row 3")
    fault = first_fault()
    assert fault is not None
    assert accept(by=OLGA, name=fault.name, reason="restored")[1] is None
    assert duty.look(timezone.now()).fault == ""
    acts(acme.nlp, 4)
    assert duty.look(timezone.now()).fault == ""
    assert len(verified()["known_breaks"]) == 1


def test_a_lost_end_is_not_accepted(acme: Acme) -> None:
    acts(acme.nlp, 2)
    AuditChain.objects.all().delete()
    fault = first_fault()
    assert fault is not None
    assert verified()["fault_name"] == ""
    with pytest.raises(Conflict, match="restore it from a backup"):
        accept(by=OLGA, name=fault.name, reason=REASON)


def test_what_is_old_goes_over_a_known_break(acme: Acme) -> None:
    old = [audited(acme, days) for days in (500, 450, 400)]
    acts(acme.nlp, 2)
    change(old[1], "nobody")
    accepted()
    assert retention.forget_audit(retention.move_horizon(timezone.now())) == 3
    assert (verified()["fault"], duty.look(timezone.now()).fault) == ("", "")
    assert retention.move_horizon(timezone.now()) < timezone.now() - 300 * DAY


def test_a_check_that_began_before_an_acceptance_does_not_undo_it(
    acme: Acme, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = acts(acme.nlp, 3)
    change(rows[1], "nobody")
    duty.look(timezone.now())

    def accepted_meanwhile(start: ChainHead | None, *, for_seconds: float) -> checking.Checked:
        found = checking.check(start, for_seconds=for_seconds)
        accepted()
        return found

    monkeypatch.setattr(duty, "check", accepted_meanwhile)
    assert duty.look(timezone.now()).fault == ""
    assert AuditCheck.objects.get().fault == ""


def test_acceptances_are_searched_for_like_any_act() -> None:
    assert faults.ACTION in audit.ACTIONS


def test_seals_with_gaps_behind_the_end_are_not_accepted_and_rows_are_sealed_on(acme: Acme) -> None:
    acts(acme.nlp, 5)
    with unguarded():
        insert_behind_the_end([])
        AuditSeal.objects.filter(number=6).update(number=2**63 - 1)
    fault = first_fault()
    assert fault is not None
    with pytest.raises(Conflict, match="do not follow each other"):
        accept(by=Actor(name="console", via=Via.SYSTEM, on_behalf_of="olga"), name=fault.name, reason="x")
    with unguarded():
        AuditSeal.objects.filter(number__gte=6).delete()
    acts(acme.nlp, 1)
    assert AuditSeal.objects.filter(number=6).exists()


def test_a_gap_that_comes_before_the_lock_is_seen_under_it(
    acme: Acme, monkeypatch: pytest.MonkeyPatch
) -> None:
    acts(acme.nlp, 5)
    with unguarded():
        insert_behind_the_end([])
    fault, lock = first_fault(), sealing.locked
    assert fault is not None

    def locked_after_a_gap() -> Any:
        with unguarded():
            AuditSeal.objects.filter(number=6).update(number=8)
        return lock()

    monkeypatch.setattr(sealing, "locked", locked_after_a_gap)
    with pytest.raises(Conflict, match="do not follow each other"):
        accept(by=Actor(name="console", via=Via.SYSTEM, on_behalf_of="olga"), name=fault.name, reason="x")
    assert not AuditEvent.objects.filter(action=faults.ACTION).exists()
