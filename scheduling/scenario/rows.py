"""What rows of every kind share: names, and one row that stands for many (`count` with `{i}` in the name)."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from .document import ScenarioError, TraceLine
from .fields import MAX_NAME_LENGTH, Fields, shorten

MAX_COUNT = 1_000_000
PLACEHOLDER = "{i}"


class KindNames:
    """The names of one kind, each once, with the line that gave it; at most a million."""

    __slots__ = ("_lines", "kind")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._lines: dict[str, int] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._lines

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, name: str, line: int) -> None:
        """Take a name; refuses one that is taken already."""
        if name in self._lines:
            first = self._lines[name]
            where = "the trace" if isinstance(first, TraceLine) else "the scenario"
            of = f" of {where}" if isinstance(line, TraceLine) else ""
            raise ScenarioError(
                f"the {self.kind} {shorten(name)} is given twice, first in line {first}{of}; "
                "names are unique",
                line,
            )
        if len(self._lines) == MAX_COUNT:
            raise ScenarioError(
                f"this is {self.kind} number {MAX_COUNT + 1:,}; {MAX_COUNT:,} are allowed", line
            )
        self._lines[name] = line

    def check(self, fields: Fields, key: str, name: str, line: int | None = None) -> str:
        """Return the name, or refuse it as unknown, naming some of those that are known.

        `key` is where it stands in the mapping; empty where the name is itself a key.
        """
        if name in self._lines:
            return name
        known = sorted(self._lines)[:10]
        more = ", ..." if len(self._lines) > len(known) else ""
        allowed = f"known are {', '.join(known)}{more}" if known else "there are none"
        where = f"{fields.what}: {key}" if key else fields.what
        raise ScenarioError(
            f"{where} names the unknown {self.kind} {shorten(name)}; {allowed}",
            fields.line_of(key) if line is None else line,
        )


@dataclass(frozen=True, slots=True)
class AllNames:
    """All names of a scenario, as they are read."""

    pools: KindNames = field(default_factory=lambda: KindNames("pool"))
    nodes: KindNames = field(default_factory=lambda: KindNames("node"))
    teams: KindNames = field(default_factory=lambda: KindNames("team"))
    workloads: KindNames = field(default_factory=lambda: KindNames("workload"))


def row_name(fields: Fields, kind: str) -> str:
    """The name of a row, which from here on stands in its refusals."""
    name = fields.required_text("name")
    fields.what = f"{kind} {shorten(name)}"
    return name


def row_names(fields: Fields, kind: str, taken: KindNames) -> tuple[str, ...]:
    """The names a row stands for: its own, or `count` of them made from its template."""
    name = row_name(fields, kind)
    count = fields.optional_integer("count", 0, MAX_COUNT)
    if count is None:
        names: tuple[str, ...] = (name,)
    elif PLACEHOLDER not in name:
        raise fields.refusal(
            "name", f'with a count the name needs "{PLACEHOLDER}", which becomes 0, 1, 2 and so on'
        )
    elif len(name.replace(PLACEHOLDER, str(count))) > MAX_NAME_LENGTH:
        raise fields.refusal("name", f"with its numbers it would have more than {MAX_NAME_LENGTH} characters")
    else:
        names = tuple(name.replace(PLACEHOLDER, str(index)) for index in range(count))
    for each in names:
        taken.add(each, fields.line_of("name"))
    return names
