"""Devices tell how they were cut from a GPU, and as which share of one they count; a slice is whole or free.

What was stored as a GPU and is named as a slice is not to be used until its agent has told of it anew.
"""

import re

from django.db import migrations, models

from chamber.triggers import Trigger

# As 0002 and 0004 left them: SQLite makes the table of devices anew, on which triggers of placements write.
OCCUPIED = "CASE WHEN {row}.hold IN ('held', 'leaving') THEN {row}.share_milli ELSE 0 END"
ALLOCATED = "CASE WHEN {row}.hold IN ('promised', 'held') THEN {row}.share_milli ELSE 0 END"
EVENTS = {
    "insert": ("INSERT", "", (("NEW", "+"),)),
    "update": ("UPDATE OF hold, share_milli, device_id", "", (("OLD", "-"), ("NEW", "+"))),
    "delete": ("DELETE", "WHEN (OLD.hold <> 'released')", (("OLD", "-"),)),
}
NAMED_AS_SLICE = re.compile(r"(?:^|-)mig-|-shared$", re.IGNORECASE)


def counts(row, sign):
    """Return the UPDATE that adds (or takes off) a placement row to its device's counters."""
    return (
        f"UPDATE agentlink_device SET occupied_milli = occupied_milli {sign} {OCCUPIED.format(row=row)}, "
        f"allocated_milli = allocated_milli {sign} {ALLOCATED.format(row=row)} WHERE id = {row}.device_id;"
    )


created = [
    f"CREATE TRIGGER agentlink_placement_{verb} AFTER {event} ON agentlink_placement {condition} "
    f"BEGIN {''.join(counts(*change) for change in changes)} END"
    for verb, (event, condition, changes) in EVENTS.items()
]
dropped = [f"DROP TRIGGER agentlink_placement_{verb}" for verb in EVENTS]


def set_aside(apps, schema_editor):
    """Have nothing placed on what is named as a slice until it was told of anew."""
    device = apps.get_model("agentlink", "Device")
    named = [
        gpu_type
        for gpu_type in device.objects.order_by().values_list("gpu_type", flat=True).distinct()
        if NAMED_AS_SLICE.search(gpu_type)
    ]
    devices = device.objects.filter(gpu_type__in=named, foreign=False)
    nodes = set(devices.order_by().values_list("node", flat=True))
    devices.update(foreign=True)
    apps.get_model("agentlink", "Node").objects.filter(pk__in=nodes).update(told="")


class Migration(migrations.Migration):
    dependencies = [("agentlink", "0012_refused_agents")]
    operations = [
        Trigger(create={"sqlite": dropped, "postgresql": []}, drop={"sqlite": created, "postgresql": []}),
        migrations.RemoveConstraint(model_name="device", name="device_occupied_within_capacity"),
        migrations.RemoveConstraint(model_name="device", name="device_allocated_within_capacity"),
        migrations.AddField(
            model_name="cluster",
            name="unclear_slices",
            field=models.PositiveIntegerField(
                db_default=0,
                default=0,
                help_text="Slices that its agent, older than this server, told as GPUs: they are not used.",
            ),
        ),
        migrations.AddField(
            model_name="device",
            name="share_milli",
            field=models.PositiveSmallIntegerField(
                db_default=1000,
                default=1000,
                help_text="The share of a GPU that it counts as; 1000 but for slices.",
            ),
        ),
        migrations.AddField(
            model_name="device",
            name="slicing",
            field=models.CharField(
                choices=[("whole", "GPU"), ("mig", "MIG slice"), ("replicas", "Replica")],
                db_default="whole",
                default="whole",
                max_length=8,
            ),
        ),
        migrations.RunPython(set_aside, migrations.RunPython.noop),
        migrations.AddConstraint(
            model_name="device",
            constraint=models.CheckConstraint(
                condition=models.Q(("share_milli", 1000), ("slicing", "whole"))
                | models.Q(("share_milli__range", (1, 1000)), ("slicing__in", ("mig", "replicas"))),
                name="device_share_of_its_slicing",
            ),
        ),
        migrations.AddConstraint(
            model_name="device",
            constraint=models.CheckConstraint(
                condition=models.Q(("occupied_milli__range", (0, 1000)), ("slicing", "whole"))
                | models.Q(("occupied_milli", 0))
                | models.Q(("occupied_milli", models.F("share_milli"))),
                name="device_occupied_within_capacity",
            ),
        ),
        migrations.AddConstraint(
            model_name="device",
            constraint=models.CheckConstraint(
                condition=models.Q(("allocated_milli__range", (0, 1000)), ("slicing", "whole"))
                | models.Q(("allocated_milli", 0))
                | models.Q(("allocated_milli", models.F("share_milli"))),
                name="device_allocated_within_capacity",
            ),
        ),
        Trigger(create={"sqlite": created, "postgresql": []}, drop={"sqlite": dropped, "postgresql": []}),
    ]
