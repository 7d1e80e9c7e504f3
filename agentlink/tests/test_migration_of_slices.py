"""The migration that tells slices from GPUs: what is named as one is set aside, and the counters go on."""

from typing import Any

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

BEFORE, AFTER = [("agentlink", "0012_refused_agents")], [("agentlink", "0013_slices_are_no_gpus")]


def migrated(target: list[tuple[str, str]]) -> Any:
    """Return the models as they are after migrating there."""
    MigrationExecutor(connection).migrate(target)
    return MigrationExecutor(connection).loader.project_state(target).apps


@pytest.mark.django_db(transaction=True)
def test_what_is_named_as_a_slice_is_not_used_until_it_is_told_of_anew() -> None:
    newest = MigrationExecutor(connection).loader.graph.leaf_nodes()
    try:
        old = migrated(BEFORE)
        cluster = old.get_model("agentlink", "Cluster").objects.create(name="east")
        nodes = old.get_model("agentlink", "Node").objects
        types = {"h100": "H100", "mig": "mig-1g.10gb", "single": "A100-MIG-1g.5gb", "parts": "T4-SHARED"}
        for name, gpu_type in types.items():
            node = nodes.create(cluster=cluster, name=name, told="digest")
            node.devices.create(index=0, gpu_type=gpu_type)
        new = migrated(AFTER)
        device = new.get_model("agentlink", "Device").objects
        aside = set(device.filter(foreign=True).values_list("node__name", flat=True))
        assert aside == {"mig", "single", "parts"}
        told = new.get_model("agentlink", "Node").objects.exclude(told="")
        assert list(told.values_list("name", flat=True)) == ["h100"]
        assert set(device.values_list("slicing", "share_milli")) == {("whole", 1000)}
    finally:
        MigrationExecutor(connection).migrate(newest)


@pytest.mark.sqlite_only
@pytest.mark.django_db
def test_sqlite_keeps_the_triggers_that_the_earlier_migrations_left() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'agentlink_placement'"
        )
        names = {name for (name,) in cursor.fetchall()}
    assert names == {f"agentlink_placement_{verb}" for verb in ("insert", "update", "delete")}
