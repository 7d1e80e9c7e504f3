"""What vouches for a stored cycle when it is replayed: which engine decided it, and a digest of its whole plan."""

import hashlib
from dataclasses import fields, replace
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter

from scheduling import engine
from scheduling.engine.types import Plan

_PLAN = TypeAdapter(Plan)
BESIDE = frozenset({"scenario", "checker"})
"""Folders of the engine that no plan depends on."""


def signature(plan: Plan) -> dict[str, str]:
    """Return what is stored beside a snapshot: the engine, and the digest of the plan that it made."""
    return {"engine": engine_version(), "plan_sha256": digest(plan)}


def digest(plan: Plan) -> str:
    """Return the digest of all that a plan says; equal for equal plans only."""
    return hashlib.sha256(plan_bytes(plan)).hexdigest()


def plan_bytes(plan: Plan) -> bytes:
    """Return the whole plan as JSON, the same bytes for the same plan."""
    return _PLAN.dump_json(whole(plan))


def whole(plan: Plan) -> Plan:
    """Return the plan with all of its rows worked out, whatever becomes of the state that it was decided on."""
    return replace(plan, **{field.name: tuple(getattr(plan, field.name)) for field in fields(plan)})


@cache
def engine_version() -> str:
    """Return what changes with each change of the engine's code: a digest of its modules, shortened."""
    home = Path(engine.__file__).parent
    found = hashlib.sha256()
    for path in sorted(home.rglob("*.py"), key=lambda path: path.relative_to(home).as_posix()):
        name = path.relative_to(home)
        if name.parts[0] not in BESIDE:
            found.update(name.as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:12]
