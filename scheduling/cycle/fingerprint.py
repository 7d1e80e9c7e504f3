"""What vouches for a stored cycle when it is replayed: which engine decided it, and a digest of its whole plan."""

import hashlib
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from types import GenericAlias
from typing import Any, get_args, get_type_hints

from pydantic import TypeAdapter

from scheduling import engine
from scheduling.engine import Plan


def _rows_of(kind: Any) -> TypeAdapter[Any]:
    """Return what writes rows of a kind: as tuples, since of any other sequence each row is looked at in Python."""
    rows: Any = GenericAlias(tuple, (kind, ...))
    return TypeAdapter(rows)


_ROWS = {name: _rows_of(*get_args(rows)[:1]) for name, rows in get_type_hints(Plan).items()}


def signature(plan: Plan) -> dict[str, str]:
    """Return what is stored beside a snapshot: the engine, and the digest of the plan that it made."""
    return {"engine": engine_version(), "plan_sha256": digest(plan)}


def digest(plan: Plan) -> str:
    """Return the digest of all that a plan says; equal for equal plans only."""
    return hashlib.sha256(plan_bytes(plan)).hexdigest()


def plan_bytes(plan: Plan) -> bytes:
    """Return the whole plan as JSON, the same bytes for the same plan."""
    written = ((name, rows.dump_json(tuple(getattr(plan, name)))) for name, rows in _ROWS.items())
    return b"{%b}" % b",".join(b'"%b":%b' % (name.encode(), text) for name, text in written)


def whole(plan: Plan) -> Plan:
    """Return the plan with all of its rows worked out, whatever becomes of the state that it was decided on."""
    return replace(plan, **{field.name: tuple(getattr(plan, field.name)) for field in fields(plan)})


@cache
def engine_version() -> str:
    """Return what changes with each change of the engine's code: a digest of its modules, shortened."""
    home = Path(engine.__file__).parents[1]
    modules = [path for folder in ("engine", "acceleration") for path in (home / folder).rglob("*.py")]
    found = hashlib.sha256()
    for path in sorted(modules, key=lambda path: path.relative_to(home).as_posix()):
        name = path.relative_to(home).as_posix()
        found.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:12]
