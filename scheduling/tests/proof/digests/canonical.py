"""A plan as plain text in two layers: what it decides, with all numbers, and the sentences that it tells.

The names in the text are those of the tables here. Where a field of a plan gets another name, one row of a table
changes and the text stays the same: plans of engines from before and after can be compared.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from hashlib import blake2b
from typing import Any

from scheduling import engine

Fields = Mapping[str, str]
"""Fields of a row: the name in the text, and the name of the attribute."""

DECIDED_AT_ONCE: Fields = {
    "start": "starts",
    "grow": "grows",
    "shrink": "shrinks",
    "preempt": "preemptions",
    "reservation": "reservations",
    "end": "expiries",
}
"""The parts of a plan that a cycle has worked out when it ends."""
WORKED_OUT_LATER: Fields = {
    "keep": "keeps",
    "wait": "waits",
    "pool": "pools",
    "team": "teams",
    "finding": "findings",
}
"""The parts that are worked out when they are first looked at."""

NUMBERS: Mapping[type, Fields] = {
    engine.Start: {
        "workload": "workload",
        "pool": "pool",
        "pods": "placements",
        "charged": "allocation",
        "victims": "victims",
        "waits_for_victims": "waits_for_victims",
        "reason": "reason",
    },
    engine.Grow: {
        "workload": "workload",
        "pool": "pool",
        "pods": "placements",
        "charged": "allocation",
    },
    engine.Keep: {"workload": "workload", "pool": "pool", "charged": "allocation", "reason": "reason"},
    engine.Shrink: {
        "workload": "workload",
        "pool": "pool",
        "pods": "pods",
        "charged": "allocation",
        "by": "by",
        "by_team": "by_team",
        "rule": "rule",
        "level": "level",
        "reason": "reason",
    },
    engine.Preemption: {
        "workload": "workload",
        "pool": "pool",
        "milli": "milli",
        "by": "by",
        "by_team": "by_team",
        "rule": "rule",
        "level": "level",
        "lost": "lost_gpu_ms",
        "reason": "reason",
    },
    engine.Wait: {
        "workload": "workload",
        "pool": "pool",
        "position": "position",
        "reason": "reason",
        "eta": "eta",
    },
    engine.Expiry: {"workload": "workload", "as": "ends_as", "reason": "reason"},
    engine.StartReservation: {"workload": "workload", "pool": "pool", "nodes": "nodes", "at": "at"},
    engine.PoolFigures: {
        "pool": "pool",
        "capacity": "capacity_milli",
        "in_use": "in_use_milli",
        "free": "free_milli",
        "oversubscribed": "oversubscribed",
        "fragmentation": "fragmentation",
    },
    engine.TeamFigures: {
        "team": "team",
        "pool": "pool",
        "guarantee": "guarantee_milli",
        "ceiling": "ceiling_milli",
        "in_use": "in_use_milli",
        "reserved": "reserved_in_use_milli",
        "demand": "demand_milli",
        "entitlement": "entitlement_milli",
    },
    engine.Finding: {"code": "code", "pool": "pool", "team": "team"},
    engine.Reason: {
        "code": "code",
        "kind": "kind",
        "asked": "asked_milli",
        "available": "available_milli",
        "limit": "limit_milli",
        "team": "team",
        "level": "level",
    },
    engine.Eta: {"earliest": "earliest", "latest": "latest"},
    engine.PodPlacement: {"index": "pod_index", "node": "node", "devices": "devices"},
    engine.DeviceShare: {"device": "index", "milli": "milli"},
    engine.Allocation: {"team": "team", "milli": "milli"},
}
"""What the text of decisions has of each row, and of what stands in rows."""
SENTENCES: Mapping[type, Fields] = {
    engine.Reason: {"message": "message", "next_step": "next_step"},
    engine.Eta: {"why": "why"},
    engine.Finding: {"message": "message"},
}
"""What the text of sentences has."""
BRIEF = frozenset({engine.PodPlacement, engine.DeviceShare, engine.Allocation})
"""Written without the names of their fields: there are many of them."""
RENAMED: Mapping[str, str] = {}
"""Codes that an engine gives another value than it had: the new value, and the one in the text."""

PLAIN = re.compile(r"[\w.+/@:=-]+")


@dataclass(frozen=True, slots=True)
class PlanTexts:
    """A plan in two layers, a line for each row."""

    decisions: str
    sentences: str

    @property
    def digests(self) -> tuple[str, str]:
        """A short digest of each."""
        return digest(self.decisions), digest(self.sentences)


def digest(text: str) -> str:
    """A short digest of a text."""
    return blake2b(text.encode(), digest_size=8).hexdigest()


def texts(plan: engine.Plan, *, whole: bool = True) -> PlanTexts:
    """The plan as text; without ``whole`` only what the cycle has worked out when it ends."""
    rows = list(_rows(plan, whole=whole))
    said = ((kind, row, _sentences(row)) for kind, row in rows)
    return PlanTexts(
        "\n".join(f"{kind} {_written(row)}" for kind, row in rows),
        "\n".join(f"{kind} {_name(row)} {sentences}" for kind, row, sentences in said if sentences),
    )


def met(plan: engine.Plan, *, whole: bool = True) -> Counter[str]:
    """How many rows there are of each kind, those of a code or a rule apart."""
    found: Counter[str] = Counter()
    for kind, row in _rows(plan, whole=whole):
        reason = getattr(row, "reason", None)
        code = getattr(row, "rule", None) or getattr(row, "code", None) or (reason and reason.code)
        found[f"{kind} {_written(code)}" if code else kind] += 1
    return found


def _rows(plan: engine.Plan, *, whole: bool) -> Iterator[tuple[str, Any]]:
    """All rows of a plan in their order, with their kind."""
    for kind, part in {**DECIDED_AT_ONCE, **(WORKED_OUT_LATER if whole else {})}.items():
        for row in getattr(plan, part):
            yield kind, row


def _written(value: Any) -> str:
    """A value in one line: nothing is ``-``, a row has its fields by name."""
    if isinstance(value, tuple | list):
        return f"[{' '.join([_written(each) for each in value])}]"
    if type(value) in NUMBERS:
        return _row(value)
    if isinstance(value, Enum):
        return RENAMED.get(value.value, str(value.value))
    if isinstance(value, str):
        return value if PLAIN.fullmatch(value) else json.dumps(value)
    return "-" if value is None else repr(value)


def _row(row: Any) -> str:
    parts = [(name, _written(getattr(row, field))) for name, field in NUMBERS[type(row)].items()]
    if type(row) in BRIEF:
        return f"({' '.join([text for _, text in parts])})"
    return f"{{{' '.join([f'{name}={text}' for name, text in parts])}}}"


def _name(row: Any) -> str:
    """What tells a row from others of its kind."""
    names = [getattr(row, field, None) for field in ("workload", "code", "pool", "team")]
    return " ".join([_written(name) for name in names if name is not None])


def _sentences(value: Any, of: str = "") -> str:
    """All sentences in a row, each with the way to it."""
    fields = SENTENCES.get(type(value), {})
    found = [f"{of}{name}={json.dumps(getattr(value, field))}" for name, field in fields.items()]
    for name, field in NUMBERS.get(type(value), {}).items():
        inside = getattr(value, field)
        if type(inside) in SENTENCES:
            found.append(_sentences(inside, f"{of}{name}."))
    return " ".join(found)
