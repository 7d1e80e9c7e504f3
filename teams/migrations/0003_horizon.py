"""What lies before the horizon may be deleted from the audit trail; nothing else, and nothing is ever changed."""

from django.db import migrations, models
from django.db.models import Q

from chamber.triggers import Trigger

KEPT = "Audit events are never changed, and deleted only when they lie before the horizon."
LATEST = "The horizon never comes nearer than seven days."

audit = Trigger(
    create={
        "sqlite": [
            "DROP TRIGGER teams_auditevent_no_delete",
            "CREATE TRIGGER teams_auditevent_no_delete BEFORE DELETE ON teams_auditevent "
            "WHEN NOT EXISTS (SELECT 1 FROM teams_horizon WHERE OLD.at < kept_from) "
            f"BEGIN SELECT RAISE(ABORT, '{KEPT}'); END",
        ],
        "postgresql": [
            "CREATE OR REPLACE FUNCTION teams_auditevent_append_only() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN IF TG_OP = 'DELETE' AND EXISTS (SELECT 1 FROM teams_horizon WHERE OLD.at < kept_from) "
            f"THEN RETURN OLD; END IF; RAISE EXCEPTION '{KEPT}' USING ERRCODE = 'integrity_constraint_violation'; END $$",
        ],
    },
    drop={
        "sqlite": [
            "DROP TRIGGER teams_auditevent_no_delete",
            "CREATE TRIGGER teams_auditevent_no_delete BEFORE DELETE ON teams_auditevent "
            "BEGIN SELECT RAISE(ABORT, 'Audit events are never changed or deleted.'); END",
        ],
        "postgresql": [
            "CREATE OR REPLACE FUNCTION teams_auditevent_append_only() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'Audit events are never changed or deleted.' "
            "USING ERRCODE = 'integrity_constraint_violation'; END $$",
        ],
    },
)

latest = Trigger(
    create={
        "sqlite": [
            f"CREATE TRIGGER teams_horizon_{verb} BEFORE {verb.upper()} ON teams_horizon "
            "WHEN NEW.kept_from > strftime('%Y-%m-%d %H:%M:%f', 'now', '-7 days') "
            f"BEGIN SELECT RAISE(ABORT, '{LATEST}'); END"
            for verb in ("insert", "update")
        ],
        "postgresql": [
            "CREATE FUNCTION teams_horizon_latest() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN IF NEW.kept_from > now() - interval '7 days' THEN "
            f"RAISE EXCEPTION '{LATEST}' USING ERRCODE = 'integrity_constraint_violation'; END IF; RETURN NEW; END $$",
            "CREATE TRIGGER teams_horizon_latest BEFORE INSERT OR UPDATE ON teams_horizon "
            "FOR EACH ROW EXECUTE FUNCTION teams_horizon_latest()",
        ],
    },
    drop={
        "sqlite": ["DROP TRIGGER teams_horizon_insert", "DROP TRIGGER teams_horizon_update"],
        "postgresql": ["DROP TRIGGER teams_horizon_latest ON teams_horizon", "DROP FUNCTION teams_horizon_latest()"],
    },
)


class Migration(migrations.Migration):
    dependencies = [("teams", "0002_triggers")]
    operations = [
        migrations.CreateModel(
            name="Horizon",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("kept_from", models.DateTimeField()),
            ],
            options={"constraints": [models.CheckConstraint(condition=Q(id=1), name="horizon_one_row")]},
        ),
        audit,
        latest,
    ]
