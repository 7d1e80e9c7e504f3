"""The audit trail takes new rows only."""

from django.db import migrations

from chamber.triggers import refuse_changes


class Migration(migrations.Migration):
    dependencies = [("teams", "0001_initial")]
    operations = [refuse_changes("teams_auditevent", "Audit events are never changed or deleted.")]
