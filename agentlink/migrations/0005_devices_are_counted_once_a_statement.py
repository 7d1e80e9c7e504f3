"""On PostgreSQL a statement's placements are summed up by device first, so that each device is written once.

A gang's placements go through three statements in its life; counted row by row, each device's row was written five
times. SQLite has no triggers for statements and keeps one for each row.
"""

from django.db import migrations

from chamber.triggers import Trigger

TRIGGERS = {
    "insert": ("INSERT", "NEW TABLE AS added", [("added", "+")]),
    "update": ("UPDATE", "OLD TABLE AS taken NEW TABLE AS added", [("taken", "-"), ("added", "+")]),
    "delete": ("DELETE", "OLD TABLE AS taken", [("taken", "-")]),
}


def changes(rows, sign):
    """Return the SELECT of what these rows add to (or take off) their devices' counters."""
    return (
        f"SELECT device_id, {sign} CASE WHEN hold IN ('held', 'leaving') THEN share_milli ELSE 0 END AS occupied, "
        f"{sign} CASE WHEN hold IN ('promised', 'held') THEN share_milli ELSE 0 END AS allocated FROM {rows}"
    )


def body(sources):
    """Return what the trigger does. Planned anew each time: the plan for one row is wrong for ten thousand."""
    summed = (
        "SELECT device_id, sum(occupied) AS occupied, sum(allocated) AS allocated "
        f"FROM ({' UNION ALL '.join(changes(*source) for source in sources)}) AS changed "
        "GROUP BY device_id HAVING sum(occupied) <> 0 OR sum(allocated) <> 0"
    )
    return (
        "BEGIN EXECUTE $sql$ UPDATE agentlink_device SET occupied_milli = occupied_milli + summed.occupied, "
        f"allocated_milli = allocated_milli + summed.allocated FROM ({summed}) AS summed "
        "WHERE id = summed.device_id $sql$; RETURN NULL; END"
    )


def by_row(row, sign):
    """Return the UPDATE that adds (or takes off) a placement to its device's counters, as it was before."""
    return (
        f"UPDATE agentlink_device SET "
        f"occupied_milli = occupied_milli {sign} CASE WHEN {row}.hold IN ('held', 'leaving') THEN {row}.share_milli ELSE 0 END, "
        f"allocated_milli = allocated_milli {sign} CASE WHEN {row}.hold IN ('promised', 'held') THEN {row}.share_milli ELSE 0 END "
        f"WHERE id = {row}.device_id;"
    )


BY_ROW = {
    "insert": ("INSERT", "", by_row("NEW", "+")),
    "update": ("UPDATE OF hold, share_milli, device_id", "", by_row("OLD", "-") + by_row("NEW", "+")),
    "delete": ("DELETE", "WHEN (OLD.hold <> 'released')", by_row("OLD", "-")),
}


def replaced(verb, event, how, code):
    """Return what puts another trigger in the place of one."""
    name = f"agentlink_placement_{verb}"
    return [
        f"DROP TRIGGER {name} ON agentlink_placement",
        f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ {code} $$",
        f"CREATE TRIGGER {name} AFTER {event} ON agentlink_placement {how} EXECUTE FUNCTION {name}()",
    ]


by_statement = Trigger(
    create={
        "sqlite": [],
        "postgresql": [
            statement
            for verb, (event, tables, sources) in TRIGGERS.items()
            for statement in replaced(verb, event, f"REFERENCING {tables} FOR EACH STATEMENT", body(sources))
        ],
    },
    drop={
        "sqlite": [],
        "postgresql": [
            statement
            for verb, (event, condition, code) in BY_ROW.items()
            for statement in replaced(verb, event, f"FOR EACH ROW {condition}", f"BEGIN {code} RETURN NULL; END")
        ],
    },
)


class Migration(migrations.Migration):
    dependencies = [("agentlink", "0004_released_counts_nothing")]
    operations = [by_statement]
