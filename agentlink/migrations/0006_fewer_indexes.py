"""Indexes go that another one begins with: each step of an assignment and its placements was written into them.

One comes: who waits to be let go, which is asked after each release, is found without looking at all who run.

On PostgreSQL pages keep room for a second version of their rows: a device's counters, which every cycle reads, then
change within their page, and what they were before is cleared away there instead of waiting for a vacuum.
"""

import django.db.models.deletion
from django.db import migrations, models

from chamber.triggers import PerDatabase

REDUNDANT = {
    "agentlink_device_node_id_184aec06": "agentlink_device (node_id)",
    "agentlink_assignment_cluster_id_43215ed9": "agentlink_assignment (cluster_id)",
    "agentlink_placement_attempt_id_78d16d86": "agentlink_placement (attempt_id)",
}
FILLED = {"agentlink_device": 50, "agentlink_assignment": 70}

room = PerDatabase(
    create={
        "sqlite": [],
        "postgresql": [f"ALTER TABLE {table} SET (fillfactor = {percent})" for table, percent in FILLED.items()],
    },
    drop={"sqlite": [], "postgresql": [f"ALTER TABLE {table} RESET (fillfactor)" for table in FILLED]},
)


class Migration(migrations.Migration):
    dependencies = [("agentlink", "0005_devices_are_counted_once_a_statement")]
    operations = [
        # Not by Django's own hand, which makes the tables anew on SQLite, without their triggers.
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(f"DROP INDEX IF EXISTS {name}", f"CREATE INDEX {name} ON {of}")
                for name, of in REDUNDANT.items()
            ],
            state_operations=[
                migrations.AlterField(
                    model_name="device",
                    name="node",
                    field=models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="devices",
                        to="agentlink.node",
                    ),
                ),
                migrations.AlterField(
                    model_name="assignment",
                    name="cluster",
                    field=models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="assignments",
                        to="agentlink.cluster",
                    ),
                ),
                migrations.AlterField(
                    model_name="placement",
                    name="attempt",
                    field=models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="placements",
                        to="workloads.attempt",
                    ),
                ),
            ],
        ),
        migrations.AddIndex(
            model_name="assignment",
            index=models.Index(
                condition=models.Q(("let_go", False), ("wanted", True)), fields=["cluster"], name="assignment_waiting"
            ),
        ),
        room,
    ]
