"""A workload may be deleted that ended before the horizon; its events only with it, and nothing of it is left behind.

An event is let go once its workload is gone, and the reference, checked at the end of the transaction, demands that
all of them are: so history goes as a whole or not at all.
"""

import django.db.models.deletion
from django.db import migrations, models

from chamber.triggers import Trigger

EVENTS = "Events are never changed, and deleted only with their workload."
ENDED = "A workload is deleted only when it ended before the horizon."

events = Trigger(
    create={
        "sqlite": [
            "DROP TRIGGER workloads_event_no_delete",
            "CREATE TRIGGER workloads_event_no_delete BEFORE DELETE ON workloads_event "
            "WHEN EXISTS (SELECT 1 FROM workloads_workload WHERE id = OLD.workload_id) "
            f"BEGIN SELECT RAISE(ABORT, '{EVENTS}'); END",
        ],
        "postgresql": [
            "CREATE OR REPLACE FUNCTION workloads_event_append_only() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN IF TG_OP = 'DELETE' AND NOT EXISTS (SELECT 1 FROM workloads_workload WHERE id = OLD.workload_id) "
            f"THEN RETURN OLD; END IF; RAISE EXCEPTION '{EVENTS}' USING ERRCODE = 'integrity_constraint_violation'; END $$",
        ],
    },
    drop={
        "sqlite": [
            "DROP TRIGGER workloads_event_no_delete",
            "CREATE TRIGGER workloads_event_no_delete BEFORE DELETE ON workloads_event "
            "BEGIN SELECT RAISE(ABORT, 'Events are never changed or deleted.'); END",
        ],
        "postgresql": [
            "CREATE OR REPLACE FUNCTION workloads_event_append_only() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'Events are never changed or deleted.' "
            "USING ERRCODE = 'integrity_constraint_violation'; END $$",
        ],
    },
)

workloads = Trigger(
    create={
        "sqlite": [
            "CREATE TRIGGER workloads_workload_kept BEFORE DELETE ON workloads_workload "
            "WHEN NOT EXISTS (SELECT 1 FROM teams_horizon WHERE OLD.finished_at < kept_from) "
            f"BEGIN SELECT RAISE(ABORT, '{ENDED}'); END",
        ],
        "postgresql": [
            "CREATE FUNCTION workloads_workload_kept() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN IF EXISTS (SELECT 1 FROM teams_horizon WHERE OLD.finished_at < kept_from) THEN RETURN OLD; "
            f"END IF; RAISE EXCEPTION '{ENDED}' USING ERRCODE = 'integrity_constraint_violation'; END $$",
            "CREATE TRIGGER workloads_workload_kept BEFORE DELETE ON workloads_workload "
            "FOR EACH ROW EXECUTE FUNCTION workloads_workload_kept()",
        ],
    },
    drop={
        "sqlite": ["DROP TRIGGER workloads_workload_kept"],
        "postgresql": [
            "DROP TRIGGER workloads_workload_kept ON workloads_workload",
            "DROP FUNCTION workloads_workload_kept()",
        ],
    },
)


class Migration(migrations.Migration):
    dependencies = [("workloads", "0002_triggers"), ("teams", "0003_horizon")]
    operations = [
        # Nothing of the table: on SQLite it is not made anew, and keeps its triggers.
        migrations.AlterField(
            model_name="event",
            name="workload",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.DO_NOTHING, related_name="events", to="workloads.workload"
            ),
        ),
        events,
        workloads,
    ]
