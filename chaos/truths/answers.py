"""Truth 3: what was answered is in the tables, once."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from chaos.truths.records import LoadRequest, Records
from chaos.truths.tables import StoredTables, StoredWorkload
from chaos.truths.violation import TruthViolation

EVENT_OF = {"cancel": "cancelled", "hold": "held", "release": "released", "requeue": "pending"}
"""What each act leaves among its workload's events: a kind, or the status that the event tells."""


def check(tables: StoredTables, records: Records) -> Iterator[TruthViolation]:
    """Compare the load's journal with workloads, keys, events and edits."""
    yield from _submissions(tables, records)
    yield from _keys(tables, records)
    yield from _acts(tables, records)
    yield from _edits(tables, records)


def _submissions(tables: StoredTables, records: Records) -> Iterator[TruthViolation]:
    by_slug = {row.slug: row for row in tables.workloads}
    by_name: dict[str, list[StoredWorkload]] = defaultdict(list)
    for row in tables.workloads:
        by_name[row.name].append(row)
    for asked in records.asked:
        if asked.act != "submit":
            continue
        for slug in asked.made:
            found = by_slug.get(slug)
            if found is None:
                yield TruthViolation(
                    3, f"{slug} was answered to {asked.user} and is not there.", (str(asked),)
                )
            elif tables.username.get(found.owner_id) != asked.user:
                yield TruthViolation(
                    3, f"{slug} was {asked.user}'s and has another owner.", (str(asked), str(found))
                )
    # A name is used for one workload: more than one of it, and a request was carried out twice.
    for name in {name for asked in records.asked for name in asked.names}:
        if len(by_name[name]) > 1:
            rows = tuple(map(str, by_name[name]))
            yield TruthViolation(
                3, f"{len(by_name[name])} workloads were made of the one request {name}.", rows
            )


def _keys(tables: StoredTables, records: Records) -> Iterator[TruthViolation]:
    answers: dict[tuple[str, str], list[LoadRequest]] = defaultdict(list)
    for asked in records.asked:
        if asked.key and asked.made:
            answers[asked.user, asked.key].append(asked)
    for (user, key), same in answers.items():
        if len({asked.made for asked in same}) > 1:
            yield TruthViolation(
                3, f"{user}'s key {key} was answered with different workloads.", tuple(map(str, same))
            )
    exist = {str(row.id) for row in tables.workloads}
    for row in tables.keys:
        missing = [workload_id for workload_id in row.workload_ids if workload_id not in exist]
        if missing:
            yield TruthViolation(
                3, f"The key {row.key} is there, its workloads are not.", (str(row), *missing)
            )


def _acts(tables: StoredTables, records: Records) -> Iterator[TruthViolation]:
    """Each act that was answered has its event, by whom it was; and there are no more events than requests."""
    done: Counter[tuple[str, str, str]] = Counter()
    unknown: Counter[tuple[str, str, str]] = Counter()
    for asked in records.asked:
        if asked.act in EVENT_OF:
            done[asked.target, asked.act, asked.user] += asked.was_done
            unknown[asked.target, asked.act, asked.user] += asked.is_unknown
    if not done:
        return
    by_slug = {row.slug: row for row in tables.workloads}
    for (slug, act, user), least in done.items():
        workload = by_slug.get(slug)
        if workload is None:
            continue  # told by another check
        mine = [event for event in tables.events_of[workload.id] if event.actor == user]
        told = [event for event in mine if EVENT_OF[act] in (event.kind, event.data.get("status"))]
        told = [event for event in told if event.kind != "submitted" and _is_own(event.kind, act)]
        most = least + unknown[slug, act, user]
        if not least <= len(told) <= most:
            sentence = (
                f"{user} was answered {least} times to {act} {slug}, and {len(told)} events tell of it."
            )
            yield TruthViolation(3, sentence, (str(workload), *map(str, told)))


def _is_own(kind: str, act: str) -> bool:
    """Return whether an event of this kind tells of the act: a hold's event tells the status Pending as well."""
    return kind == ("status" if act in ("cancel", "requeue") else EVENT_OF[act])


def _edits(tables: StoredTables, records: Records) -> Iterator[TruthViolation]:
    """Each edit of a team or a share raised a version and left a line in the audit trail."""
    for act, action in (("edit-team", "team.edited"), ("edit-share", "team.share-changed")):
        asked = [row for row in records.asked if row.act == act]
        least, unknown = sum(row.was_done for row in asked), sum(row.is_unknown for row in asked)
        users = {row.user for row in asked}
        trail = [row for row in tables.audit if row.action == action and row.actor in users]
        if asked and not least <= len(trail) <= least + unknown:
            sentence = f"{least} of {act} were answered (and {unknown} may be done); the trail tells of {len(trail)}."
            yield TruthViolation(3, sentence, tuple(map(str, trail[-5:])))
