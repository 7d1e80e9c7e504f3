"""Indexes go that another one begins with: each change of a workload's status was written into all of them.

On PostgreSQL pages of workloads keep room for a second version of their rows, so that a change of the reason for
which one waits touches no index at all.
"""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from chamber.triggers import PerDatabase

REDUNDANT = {
    "workloads_workload_owner_id_54d3783b": "workloads_workload (owner_id)",
    "workloads_workload_team_id_41426311": "workloads_workload (team_id)",
    "workloads_workload_pool_id_d026000b": "workloads_workload (pool_id)",
    "workloads_attempt_workload_id_b7d4e8a0": "workloads_attempt (workload_id)",
    "workloads_event_workload_id_9498d8e4": "workloads_event (workload_id)",
}
# Django makes it for searches by the beginning of a slug; there are none.
LIKE = {"workloads_workload_slug_020b72ef_like": "workloads_workload (slug varchar_pattern_ops)"}


def dropped(indexes):
    return [f"DROP INDEX IF EXISTS {name}" for name in indexes]


def created(indexes):
    return [f"CREATE INDEX {name} ON {of}" for name, of in indexes.items()]


indexes = PerDatabase(
    create={
        "sqlite": dropped(REDUNDANT),
        "postgresql": [*dropped(REDUNDANT | LIKE), "ALTER TABLE workloads_workload SET (fillfactor = 75)"],
    },
    drop={
        "sqlite": created(REDUNDANT),
        "postgresql": [*created(REDUNDANT | LIKE), "ALTER TABLE workloads_workload RESET (fillfactor)"],
    },
)


def reference(model, name, to, **options):
    """Return what notes in the models' state that a reference has no index of its own."""
    field = models.ForeignKey(db_index=False, to=to, **options)
    return migrations.AlterField(model_name=model, name=name, field=field)


class Migration(migrations.Migration):
    dependencies = [("workloads", "0004_several_steps_at_once")]
    operations = [
        # Not by Django's own hand, which makes the tables anew on SQLite, without their triggers.
        migrations.SeparateDatabaseAndState(
            database_operations=[indexes],
            state_operations=[
                reference("workload", "owner", settings.AUTH_USER_MODEL, on_delete=django.db.models.deletion.PROTECT, related_name="workloads"),
                reference("workload", "team", "teams.team", on_delete=django.db.models.deletion.PROTECT, related_name="workloads"),
                reference("workload", "pool", "teams.pool", null=True, on_delete=django.db.models.deletion.PROTECT, related_name="workloads"),
                reference("attempt", "workload", "workloads.workload", on_delete=django.db.models.deletion.CASCADE, related_name="attempts"),
                reference("event", "workload", "workloads.workload", on_delete=django.db.models.deletion.DO_NOTHING, related_name="events"),
            ],
        ),
    ]
