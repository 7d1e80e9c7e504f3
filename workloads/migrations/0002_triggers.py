"""Events take new rows only, and a status changes only as the table of transitions allows."""

from django.db import migrations

from chamber.triggers import Trigger, refuse_changes

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

legal = " OR ".join(
    f"(OLD.status = '{old}' AND NEW.status IN ({', '.join(repr(status) for status in new)}))" for old, new in LEGAL.items()
)
SENTENCE = "A workload cannot change its status that way."

statuses = Trigger(
    create={
        "sqlite": [
            "CREATE TRIGGER workloads_workload_status BEFORE UPDATE OF status ON workloads_workload "
            f"WHEN OLD.status <> NEW.status AND NOT ({legal}) BEGIN SELECT RAISE(ABORT, '{SENTENCE}'); END"
        ],
        "postgresql": [
            "CREATE FUNCTION workloads_workload_status() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN IF OLD.status <> NEW.status AND NOT ({legal}) THEN RAISE EXCEPTION '{SENTENCE}' "
            "USING ERRCODE = 'integrity_constraint_violation'; END IF; RETURN NEW; END $$",
            "CREATE TRIGGER workloads_workload_status BEFORE UPDATE OF status ON workloads_workload "
            "FOR EACH ROW EXECUTE FUNCTION workloads_workload_status()",
        ],
    },
    drop={
        "sqlite": ["DROP TRIGGER workloads_workload_status"],
        "postgresql": [
            "DROP TRIGGER workloads_workload_status ON workloads_workload",
            "DROP FUNCTION workloads_workload_status()",
        ],
    },
)


class Migration(migrations.Migration):
    dependencies = [("workloads", "0001_initial")]
    operations = [refuse_changes("workloads_event", "Events are never changed or deleted."), statuses]
