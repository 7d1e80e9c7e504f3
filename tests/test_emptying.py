"""After a test that has committed nothing of it is left, its append-only rows included, and triggers work again."""

import pytest
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction

from rig import emptying
from teams import actions
from teams.actors import Actor
from teams.models import AuditEvent
from teams.tests.factories import make_org

pytestmark = pytest.mark.django_db(transaction=True)


def tables() -> list[str]:
    return connection.introspection.django_table_names(only_existing=True, include_views=False)


def test_what_was_committed_is_gone_and_what_django_wrote_of_the_models_is_there() -> None:
    make_org("Acme")
    assert "teams_team" in emptying.with_rows(connection, tables())
    before = ContentType.objects.count()
    assert before > 0
    call_command("flush", interactive=False, verbosity=0, reset_sequences=False)
    assert emptying.with_rows(connection, tables()) == []
    assert ContentType.objects.count() == before


def test_events_are_emptied_too_and_refused_to_be_changed_afterwards() -> None:
    for _ in range(2):
        actions.create_organisation(by=Actor.system("test"), name="Acme")
        with pytest.raises(DatabaseError), transaction.atomic():
            AuditEvent.objects.all()._raw_delete(AuditEvent.objects.db)
        call_command("flush", interactive=False, verbosity=0, reset_sequences=False)
        assert not AuditEvent.objects.exists()
