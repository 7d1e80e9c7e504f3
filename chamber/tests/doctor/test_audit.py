"""What the doctor says of the audit trail's chain."""

from datetime import timedelta

import pytest
from django.utils import timezone

from chamber.doctor.audit import chain
from chamber.doctor.finding import DoctorFinding, Fact
from teams.actors import Actor, Via
from teams.chain import duty
from teams.chain.accepting import accept, first_fault
from teams.models import AuditCheck, AuditEvent
from teams.tests.chains import acts, unguarded
from teams.tests.factories import make_org

pytestmark = pytest.mark.django_db


def test_it_tells_up_to_where_the_chain_holds_and_its_head() -> None:
    assert "was not checked yet" in next(iter(chain())).sentence  # type: ignore[union-attr]
    acts(make_org(), 3)
    found = duty.look(timezone.now())
    [fact] = chain()
    assert isinstance(fact, Fact)
    assert (
        "fit its chain up to row 3, checked 0 seconds ago; all rows, once a day, were checked"
        in fact.sentence
    )
    assert fact.sentence.endswith(f"Its head: 3:{found.digest}.")


def test_it_names_the_row_that_does_not_fit() -> None:
    rows = acts(make_org(), 3)
    with unguarded():
        AuditEvent.objects.filter(pk=rows[1].pk).update(actor="nobody")
    duty.look(timezone.now())
    [finding] = chain()
    assert isinstance(finding, DoctorFinding)
    assert f"Row 2 ({rows[1].pk}) was changed" in finding.problem


def test_it_tells_how_many_breaks_are_known() -> None:
    rows = acts(make_org(), 3)
    with unguarded():
        AuditEvent.objects.filter(pk=rows[1].pk).update(actor="nobody")
    fault = first_fault()
    assert fault is not None
    by = Actor(name="console", via=Via.SYSTEM, on_behalf_of="olga")
    accept(by=by, name=fault.name, reason="by hand")
    [fact] = chain()
    assert isinstance(fact, Fact)
    assert (
        "fit its chain up to row 4, but for 1 known break, checked 0 seconds ago; all rows, once a day, were"
        in fact.sentence
    )


def test_it_tells_that_the_duties_stand_still() -> None:
    acts(make_org(), 1)
    duty.look(timezone.now())
    AuditCheck.objects.update(at=timezone.now() - timedelta(minutes=11))
    [finding] = chain()
    assert isinstance(finding, DoctorFinding)
    assert finding.problem.startswith(
        "New rows of the audit trail were last checked against its chain 11 minutes ago"
    )


def test_it_tells_rows_that_nobody_seals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chamber.doctor.audit.SEALED_WITHIN", timedelta(0))
    acts(make_org(), 2, sealed=False)
    finding, _ = chain()
    assert isinstance(finding, DoctorFinding)
    assert finding.problem.startswith("Of the audit trail 2 rows wait to be sealed, the first since ")
