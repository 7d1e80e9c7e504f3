"""What runs or starts may go back to the queue by itself: its attempt was displaced."""

from django.db import migrations, models

from chamber.triggers import Trigger

# As workloads.transitions says on the day of this migration.
LEGAL = {
    "pending": ["queued", "cancelled", "failed"],
    "queued": ["starting", "preempted", "cancelled", "failed", "pending"],
    "starting": ["running", "preempted", "cancelled", "failed", "pending"],
    "running": ["completed", "failed", "preempted", "cancelled", "pending"],
    "completed": ["pending"],
    "failed": ["pending"],
    "preempted": ["pending"],
    "cancelled": ["pending"],
}
BEFORE = {
    **LEGAL,
    "starting": ["running", "preempted", "cancelled", "failed"],
    "running": ["completed", "failed", "preempted", "cancelled"],
}
SEVERAL = [("queued", "running", 2), ("queued", "completed", 3), ("starting", "completed", 2)]
SENTENCE = "A workload cannot change its status that way."


def allowed(legal):
    """Return the condition under which a change is legal."""
    step = [
        f"(OLD.status = '{old}' AND NEW.status IN ({', '.join(repr(status) for status in new)}))"
        for old, new in legal.items()
    ]
    steps = [
        f"(OLD.status = '{old}' AND NEW.status = '{new}' AND NEW.version = OLD.version + {count} "
        f"AND NEW.last_event >= OLD.last_event + {count})"
        for old, new, count in SEVERAL
    ]
    return " OR ".join(step + steps)


def sqlite(legal):
    """Return what makes the trigger anew."""
    return [
        "DROP TRIGGER workloads_workload_status",
        "CREATE TRIGGER workloads_workload_status BEFORE UPDATE OF status ON workloads_workload "
        f"WHEN OLD.status <> NEW.status AND NOT ({allowed(legal)}) BEGIN SELECT RAISE(ABORT, '{SENTENCE}'); END",
    ]


def postgresql(legal):
    """Return what has the trigger do something else."""
    return [
        "CREATE OR REPLACE FUNCTION workloads_workload_status() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN IF OLD.status <> NEW.status AND NOT ({allowed(legal)}) THEN RAISE EXCEPTION '{SENTENCE}' "
        "USING ERRCODE = 'integrity_constraint_violation'; END IF; RETURN NEW; END $$"
    ]


class Migration(migrations.Migration):
    dependencies = [("workloads", "0005_fewer_indexes")]
    operations = [
        # Choices only: on SQLite the table is not made anew, and keeps its triggers.
        migrations.AlterField(
            model_name="attempt",
            name="end_reason",
            field=models.CharField(
                blank=True,
                choices=[
                    ("completed", "Completed"),
                    ("failed", "Failed"),
                    ("preempted", "Preempted"),
                    ("cancelled", "Cancelled"),
                    ("refused", "The cluster refused it"),
                    ("lost", "Lost with its cluster"),
                    ("displaced", "Displaced"),
                ],
                max_length=10,
            ),
        ),
        migrations.AddIndex(
            model_name="attempt",
            index=models.Index(
                fields=["ended_at"],
                condition=models.Q(end_reason__in=("displaced", "lost")),
                name="attempt_displaced",
            ),
        ),
        Trigger(
            create={"sqlite": sqlite(LEGAL), "postgresql": postgresql(LEGAL)},
            drop={"sqlite": sqlite(BEFORE), "postgresql": postgresql(BEFORE)},
        ),
    ]
