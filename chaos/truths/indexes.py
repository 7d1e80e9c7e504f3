"""Truth 6: finished work is out of the indexes that each cycle reads."""

from collections.abc import Iterator

from chaos.truths.records import Records
from chaos.truths.tables import StoredTables
from chaos.truths.violation import TruthViolation

HOT = ("workload_open", "attempt_on_devices", "assignment_desired", "placement_open", "placement_on_devices")


def check(tables: StoredTables, records: Records) -> Iterator[TruthViolation]:  # noqa: ARG001 - all checks take both
    """Find hot indexes that are gone, broken, or hold everything."""
    found = {index.name: index for index in tables.indexes}
    for name in HOT:
        index = found.get(name)
        if index is None:
            yield TruthViolation(6, f"The index {name} is not there.")
        elif not index.valid or not index.predicate:
            yield TruthViolation(
                6, f"The index {name} holds finished work as well, or is broken.", (str(index),)
            )
