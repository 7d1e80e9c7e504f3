"""Deleting a placement that was released changes no counter, so it no longer writes to the device's row.

History is deleted beside the cycle that works on those rows; it must not wait for it, nor keep it waiting.
"""

from django.db import migrations

from chamber.triggers import Trigger

COUNTS = (
    "UPDATE agentlink_device SET "
    "occupied_milli = occupied_milli - CASE WHEN OLD.hold IN ('held', 'leaving') THEN OLD.share_milli ELSE 0 END, "
    "allocated_milli = allocated_milli - CASE WHEN OLD.hold IN ('promised', 'held') THEN OLD.share_milli ELSE 0 END "
    "WHERE id = OLD.device_id;"
)
DROP = {
    "sqlite": "DROP TRIGGER agentlink_placement_delete",
    "postgresql": "DROP TRIGGER agentlink_placement_delete ON agentlink_placement",
}


def created(condition):
    """Return what makes the trigger anew, for rows of this condition."""
    return {
        "sqlite": [
            DROP["sqlite"],
            f"CREATE TRIGGER agentlink_placement_delete AFTER DELETE ON agentlink_placement {condition} BEGIN {COUNTS} END",
        ],
        "postgresql": [
            DROP["postgresql"],
            "CREATE TRIGGER agentlink_placement_delete AFTER DELETE ON agentlink_placement "
            f"FOR EACH ROW {condition} EXECUTE FUNCTION agentlink_placement_delete()",
        ],
    }


class Migration(migrations.Migration):
    dependencies = [("agentlink", "0003_inventory_by_name_and_given_up")]
    operations = [Trigger(create=created("WHEN (OLD.hold <> 'released')"), drop=created(""))]
