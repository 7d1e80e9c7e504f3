"""The audit trail is chained. Rows that are there already are sealed afterwards, in batches: this takes no longer for
millions of them.
"""

from datetime import timedelta

import django.db.models.deletion
from django.db import migrations, models
from django.utils import timezone

from chamber.triggers import Trigger, refuse_changes

SEALED = "Seals of the audit trail are never changed, and deleted only after their rows."

waits = Trigger(
    create={
        "sqlite": [
            "CREATE TRIGGER teams_auditevent_waits AFTER INSERT ON teams_auditevent "
            "BEGIN INSERT INTO teams_auditunsealed (event_id, refused) VALUES (NEW.id, 0); END",
        ],
        "postgresql": [
            "CREATE FUNCTION teams_auditevent_waits() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN INSERT INTO teams_auditunsealed (event_id, refused) VALUES (NEW.id, false); RETURN NULL; END $$",
            "CREATE TRIGGER teams_auditevent_waits AFTER INSERT ON teams_auditevent "
            "FOR EACH ROW EXECUTE FUNCTION teams_auditevent_waits()",
        ],
    },
    drop={
        "sqlite": ["DROP TRIGGER teams_auditevent_waits"],
        "postgresql": [
            "DROP TRIGGER teams_auditevent_waits ON teams_auditevent",
            "DROP FUNCTION teams_auditevent_waits()",
        ],
    },
)

seals_stay = Trigger(
    create={
        "sqlite": [
            "DROP TRIGGER teams_auditseal_no_delete",
            "CREATE TRIGGER teams_auditseal_no_delete BEFORE DELETE ON teams_auditseal "
            "WHEN EXISTS (SELECT 1 FROM teams_auditevent WHERE id = OLD.event_id) "
            f"BEGIN SELECT RAISE(ABORT, '{SEALED}'); END",
        ],
        "postgresql": [
            "CREATE OR REPLACE FUNCTION teams_auditseal_append_only() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN IF TG_OP = 'DELETE' AND NOT EXISTS "
            "(SELECT 1 FROM teams_auditevent WHERE id = OLD.event_id) THEN RETURN OLD; END IF; "
            f"RAISE EXCEPTION '{SEALED}' USING ERRCODE = 'integrity_constraint_violation'; END $$",
        ],
    },
    drop={"sqlite": [], "postgresql": []},
)


def begin(apps, schema_editor):
    """Where rows are there already, have them sealed first; processes of the version before may run for a day more."""
    if apps.get_model("teams", "AuditEvent").objects.exists():
        until = timezone.now() + timedelta(days=1)
        apps.get_model("teams", "AuditChain").objects.create(pk=1, has_older=True, unmarked_until=until)


class Migration(migrations.Migration):
    dependencies = [("teams", "0010_provider_groups")]

    operations = [
        migrations.CreateModel(
            name="AuditUnsealed",
            fields=[
                (
                    "event",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        primary_key=True,
                        related_name="unsealed",
                        serialize=False,
                        to="teams.auditevent",
                    ),
                ),
                ("refused", models.BooleanField(default=False, help_text="Not written by Chamber, or changed since.")),
            ],
        ),
        migrations.AddField(
            model_name="auditevent",
            name="mark",
            field=models.CharField(
                editable=False, help_text="Shows that Chamber wrote the row.", max_length=80, null=True
            ),
        ),
        migrations.CreateModel(
            name="AuditChain",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("number", models.PositiveBigIntegerField(default=0, help_text="Of the last seal.")),
                ("digest", models.CharField(blank=True, max_length=64)),
                (
                    "anchor_number",
                    models.PositiveBigIntegerField(
                        default=0, help_text="Of the last row that was deleted because of its age."
                    ),
                ),
                ("anchor_digest", models.CharField(blank=True, max_length=64)),
                ("anchor_mac", models.CharField(blank=True, max_length=80)),
                (
                    "has_older",
                    models.BooleanField(
                        default=False, help_text="Rows from before the chain are not all sealed yet."
                    ),
                ),
                (
                    "older_at",
                    models.DateTimeField(help_text="Of the last of them that was sealed.", null=True),
                ),
                ("older_id", models.UUIDField(null=True)),
                (
                    "unmarked_until",
                    models.DateTimeField(
                        help_text="Until then processes of an older version write rows without their mark.", null=True
                    ),
                ),
            ],
            options={"constraints": [models.CheckConstraint(condition=models.Q(id=1), name="auditchain_one_row")]},
        ),
        migrations.CreateModel(
            name="AuditCheck",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("at", models.DateTimeField()),
                ("number", models.PositiveBigIntegerField(default=0, help_text="It holds up to here.")),
                ("digest", models.CharField(blank=True, max_length=64)),
                (
                    "fault",
                    models.TextField(blank=True, help_text="The first row that does not fit; empty while all do."),
                ),
                (
                    "whole_at",
                    models.DateTimeField(help_text="When a check of every row last ended well.", null=True),
                ),
                (
                    "whole_began_at",
                    models.DateTimeField(help_text="Of the check of every row that goes on.", null=True),
                ),
                (
                    "whole_number",
                    models.PositiveBigIntegerField(default=0, help_text="How far that one is."),
                ),
                ("whole_digest", models.CharField(blank=True, max_length=64)),
            ],
            options={"constraints": [models.CheckConstraint(condition=models.Q(id=1), name="auditcheck_one_row")]},
        ),
        migrations.CreateModel(
            name="AuditSeal",
            fields=[
                ("number", models.PositiveBigIntegerField(primary_key=True, serialize=False)),
                ("digest", models.CharField(max_length=64)),
                (
                    "mac",
                    models.CharField(
                        help_text="Over the digest, by a key that is not in the database.", max_length=80
                    ),
                ),
                ("at", models.DateTimeField()),
                (
                    "event",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="seal",
                        to="teams.auditevent",
                    ),
                ),
            ],
            options={"ordering": ["number"]},
        ),
        waits,
        refuse_changes("teams_auditseal", SEALED),
        seals_stay,
        migrations.RunPython(begin, migrations.RunPython.noop),
    ]
