"""A row may take the steps from its allocation to its completion at once, where it counts each as a change.

An agent often tells of several together. Each step still raises the version and has its event.
"""

from django.db import migrations

from chamber.triggers import Trigger

# As workloads.transitions says on the day of this migration.
LEGAL = {
    "pending": ["queued", "cancelled", "failed"],
    "queued": ["starting", "preempted", "cancelled", "failed", "pending"],
    "starting": ["running", "preempted", "cancelled", "failed"],
    "running": ["completed", "failed", "preempted", "cancelled"],
    "completed": ["pending"],
    "failed": ["pending"],
    "preempted": ["pending"],
    "cancelled": ["pending"],
}
SEVERAL = [("queued", "running", 2), ("queued", "completed", 3), ("starting", "completed", 2)]
SENTENCE = "A workload cannot change its status that way."

step = " OR ".join(
    f"(OLD.status = '{old}' AND NEW.status IN ({', '.join(repr(status) for status in new)}))" for old, new in LEGAL.items()
)
steps = " OR ".join(
    f"(OLD.status = '{old}' AND NEW.status = '{new}' AND NEW.version = OLD.version + {count} "
    f"AND NEW.last_event >= OLD.last_event + {count})"
    for old, new, count in SEVERAL
)


def sqlite(legal):
    """Return what makes the trigger anew."""
    return [
        "DROP TRIGGER workloads_workload_status",
        "CREATE TRIGGER workloads_workload_status BEFORE UPDATE OF status ON workloads_workload "
        f"WHEN OLD.status <> NEW.status AND NOT ({legal}) BEGIN SELECT RAISE(ABORT, '{SENTENCE}'); END",
    ]


def postgresql(legal):
    """Return what has the trigger do something else."""
    return [
        "CREATE OR REPLACE FUNCTION workloads_workload_status() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN IF OLD.status <> NEW.status AND NOT ({legal}) THEN RAISE EXCEPTION '{SENTENCE}' "
        "USING ERRCODE = 'integrity_constraint_violation'; END IF; RETURN NEW; END $$"
    ]


class Migration(migrations.Migration):
    dependencies = [("workloads", "0003_retention")]
    operations = [
        Trigger(
            create={"sqlite": sqlite(f"{step} OR {steps}"), "postgresql": postgresql(f"{step} OR {steps}")},
            drop={"sqlite": sqlite(step), "postgresql": postgresql(step)},
        )
    ]
