"""A device's two counters follow its placements, so that the checks on them referee every write."""

from django.db import migrations

from chamber.triggers import Trigger


def counts(row, sign):
    """Return the UPDATE that adds (or takes off) a placement row to its device's counters."""
    return (
        f"UPDATE agentlink_device SET "
        f"occupied_milli = occupied_milli {sign} CASE WHEN {row}.hold IN ('held', 'leaving') THEN {row}.share_milli ELSE 0 END, "
        f"allocated_milli = allocated_milli {sign} CASE WHEN {row}.hold IN ('promised', 'held') THEN {row}.share_milli ELSE 0 END "
        f"WHERE id = {row}.device_id;"
    )


# What is taken off comes first, so that a device never seems over-full in between.
BODIES = {"insert": counts("NEW", "+"), "delete": counts("OLD", "-"), "update": counts("OLD", "-") + counts("NEW", "+")}
EVENTS = {"insert": "INSERT", "delete": "DELETE", "update": "UPDATE OF hold, share_milli, device_id"}

counters = Trigger(
    create={
        "sqlite": [
            f"CREATE TRIGGER agentlink_placement_{verb} AFTER {EVENTS[verb]} ON agentlink_placement BEGIN {body} END"
            for verb, body in BODIES.items()
        ],
        "postgresql": [
            statement
            for verb, body in BODIES.items()
            for statement in (
                f"CREATE FUNCTION agentlink_placement_{verb}() RETURNS trigger LANGUAGE plpgsql AS "
                f"$$ BEGIN {body} RETURN NULL; END $$",
                f"CREATE TRIGGER agentlink_placement_{verb} AFTER {EVENTS[verb]} ON agentlink_placement "
                f"FOR EACH ROW EXECUTE FUNCTION agentlink_placement_{verb}()",
            )
        ],
    },
    drop={
        "sqlite": [f"DROP TRIGGER agentlink_placement_{verb}" for verb in BODIES],
        "postgresql": [
            statement
            for verb in BODIES
            for statement in (
                f"DROP TRIGGER agentlink_placement_{verb} ON agentlink_placement",
                f"DROP FUNCTION agentlink_placement_{verb}()",
            )
        ],
    },
)


class Migration(migrations.Migration):
    dependencies = [("agentlink", "0001_initial")]
    operations = [counters]
