"""What a submission may say of an array: a range of numbers, a list, a grid or a CSV; a sentence for each mistake.

Nothing is built before its size is known and allowed.
"""

import csv
import io
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chamber import invalid
from chamber.words import count

MOST_MEMBERS = 10_000
MOST_INDEX = 999_999
MOST_PARAMETERS = 50
MOST_CHARACTERS = 32_768
"""In one parameter, as in one variable."""
LONGEST_NAME = 100
OURS = "CHAMBER_"
"""Names of variables that begin so are Chamber's own."""
VALUE = "CHAMBER_ARRAY_VALUE"
"""The variable that has the entry of a list without names."""
ARRAY, INDEX, SIZE = "CHAMBER_ARRAY", "CHAMBER_ARRAY_INDEX", "CHAMBER_ARRAY_SIZE"
TOLD = (ARRAY, INDEX, SIZE, VALUE)
"""The variables that every member may have besides its parameters."""
KINDS = ("range", "list", "grid", "csv")
ALLOWED = (
    "write a range such as 0-199, 1-99:2 or 200; a list; a grid such as lr=0.1,0.01; or a CSV with its names"
)

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_RANGE = re.compile(r"(\d{1,12})(?:-(\d{1,12}))?(?::(\d{1,12}))?", re.ASCII)
_GRID_LINE = re.compile(r"\s*[^=\n,]*=")


@dataclass(frozen=True, slots=True)
class ArrayMember:
    """One of an array: its index, and its parameters by name."""

    index: int
    parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ArrayRequest:
    """An array as it was asked for: the indexes of its members, the names of the parameters, and their values.

    `columns` are the values of each parameter of a grid, of which each member has another combination, the last name
    changing first; `rows` the values of each member otherwise.
    """

    kind: str
    indexes: range
    names: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    columns: tuple[tuple[str, ...], ...] = ()

    @property
    def size(self) -> int:
        """Return how many members it has."""
        return len(self.indexes)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Return the names that people gave; an entry of a list without names has none."""
        return tuple(name for name in self.names if name != VALUE)

    def members(self) -> Iterator[ArrayMember]:
        """Yield the members in the order of their indexes."""
        values: Iterator[tuple[str, ...]] = iter(self.rows)
        if self.kind == "grid":
            values = itertools.product(*self.columns)
        elif self.kind == "range":
            values = itertools.repeat((), self.size)
        for index, row in zip(self.indexes, values, strict=True):
            yield ArrayMember(index, dict(zip(self.names, row, strict=True)))

    def as_json(self) -> dict[str, Any]:
        """Return it as a submission may say it again."""
        if self.kind == "range":
            step = f":{self.indexes.step}" if self.indexes.step != 1 else ""
            return {"range": f"{self.indexes.start}-{self.indexes[-1]}{step}"}
        if self.kind == "grid":
            return {
                "grid": {name: list(values) for name, values in zip(self.names, self.columns, strict=True)}
            }
        if self.names == (VALUE,):
            return {"list": [value for (value,) in self.rows]}
        return {"list": [dict(zip(self.names, row, strict=True)) for row in self.rows]}

    def text(self) -> str:
        """Return it as text that says the same, for a form."""
        if self.kind == "range":
            return str(self.as_json()["range"])
        written = io.StringIO()
        writer = csv.writer(written, lineterminator="\n")
        if self.kind == "grid" and not any(map(_has_lines, itertools.chain.from_iterable(self.columns))):
            for name, values in zip(self.names, self.columns, strict=True):
                written.write(f"{name}=")
                writer.writerow(values)
        else:
            writer.writerow(self.names)
            writer.writerows(member.parameters.values() for member in self.members())
        return written.getvalue().rstrip("\n")


def _has_lines(value: str) -> bool:
    """Return whether a value would be several lines of a grid."""
    return value.splitlines() not in ([], [value])


def read(value: object) -> ArrayRequest | None:
    """Return the array that was asked for; raise `ValueError` with a sentence where it cannot be."""
    if value is None or isinstance(value, ArrayRequest):
        return value
    if isinstance(value, bool) or not isinstance(value, int | str | list | Mapping):
        raise ValueError(f"array is {invalid.shown(value)}; {ALLOWED}.")
    if isinstance(value, list):
        return _of_list(value)
    if isinstance(value, Mapping):
        return _of_mapping(value)
    return _of_text(str(value).strip())


def _of_mapping(value: Mapping[object, object]) -> ArrayRequest:
    given = [str(key) for key in value]
    if len(given) != 1 or given[0] not in KINDS:
        raise ValueError(
            f"array has {', '.join(map(invalid.shown, given)) or 'nothing'}; it takes one of {', '.join(KINDS)}."
        )
    kind, content = given[0], next(iter(value.values()))
    if kind == "list":
        if not isinstance(content, list):
            raise ValueError(f"array.list is {invalid.shown(content)}; it must be a list.")
        return _of_list(content)
    if kind == "grid":
        if not isinstance(content, Mapping):
            raise ValueError(
                f"array.grid is {invalid.shown(content)}; it must be a mapping of names to lists of values."
            )
        return _of_grid(content)
    if isinstance(content, bool) or not isinstance(content, int | str):
        raise ValueError(f"array.{kind} is {invalid.shown(content)}; it must be text.")
    return _of_range(str(content).strip()) if kind == "range" else _of_csv(str(content))


def _of_text(text: str) -> ArrayRequest:
    if _GRID_LINE.match(text):
        return _of_grid_lines(text)
    if "\n" in text:
        return _of_csv(text)
    return _of_range(text)


def _of_range(text: str) -> ArrayRequest:
    found = _RANGE.fullmatch(text.replace("_", ""))
    if not found:
        raise ValueError(f"array is {invalid.shown(text)}; {ALLOWED}.")
    first, last, step = found.groups()
    start, stop = (0, int(first) - 1) if last is None else (int(first), int(last))
    by = 1 if step is None else int(step)
    if by < 1:
        raise ValueError(f"The range {text} has the step 0; give 1 or more.")
    if last is None and step is not None:
        raise ValueError(f"The range {text} has a step and no end; write it as 0-{stop}:{step}.")
    indexes = range(start, stop + 1, by)
    if not indexes:
        raise ValueError(f"The range {text} is empty: an array has 1 to {MOST_MEMBERS:,} members.")
    _require_size(len(indexes))
    if indexes[-1] > MOST_INDEX:
        raise ValueError(f"The range {text} ends with {indexes[-1]:,}; the highest index is {MOST_INDEX:,}.")
    return ArrayRequest("range", indexes)


def _of_list(items: Sequence[object]) -> ArrayRequest:
    if not items:
        raise ValueError(f"The list of the array is empty: an array has 1 to {MOST_MEMBERS:,} members.")
    _require_size(len(items))
    if not any(isinstance(item, Mapping) for item in items):
        rows = [(_value(item, VALUE, number),) for number, item in enumerate(items)]
        return ArrayRequest("list", range(len(rows)), (VALUE,), tuple(rows))
    for number, item in enumerate(items):
        if not isinstance(item, Mapping):
            raise ValueError(
                f"array[{number}] is {invalid.shown(item)}; others are mappings, so it must be one too."
            )
    first = items[0]
    assert isinstance(first, Mapping)  # noqa: S101 - looked at above
    names = _names([str(name) for name in first])
    found: list[tuple[str, ...]] = []
    for number, item in enumerate(items):
        assert isinstance(item, Mapping)  # noqa: S101 - likewise
        _require_same(number, [str(name) for name in item], names)
        found.append(tuple(_value(item[name], name, number) for name in first))
    return ArrayRequest("list", range(len(found)), names, tuple(found))


def _require_same(number: int, given: Sequence[str], names: Sequence[str]) -> None:
    missing = [name for name in names if name not in given]
    more = [name for name in given if name not in names]
    if missing:
        raise ValueError(
            f"array[{number}] lacks {', '.join(missing[:5])}, which array[0] has: each has the same names."
        )
    if more:
        raise ValueError(
            f"array[{number}] has {', '.join(more[:5])}, which array[0] lacks: each has the same names."
        )


def _of_grid_lines(text: str) -> ArrayRequest:
    grid: dict[object, object] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        name, equals, values = line.partition("=")
        if not equals:
            raise ValueError(
                f"Line {number} of the grid is {invalid.shown(line)}; write NAME=value,value on each line."
            )
        if name.strip() in grid:
            raise ValueError(
                f"Line {number} of the grid gives {name.strip()!r} again: name each parameter once."
            )
        grid[name.strip()] = [each.strip() for each in next(_csv_rows(values), [])]
    return _of_grid(grid)


def _of_grid(grid: Mapping[object, object]) -> ArrayRequest:
    if not grid:
        raise ValueError(f"The grid of the array is empty: an array has 1 to {MOST_MEMBERS:,} members.")
    names = _names([str(name) for name in grid])
    for name, values in zip(names, grid.values(), strict=True):
        if not isinstance(values, list) or not values:
            raise ValueError(
                f"array.grid.{name} is {invalid.shown(values)}; it must be a list with at least one value."
            )
    sizes = [len(values) for values in grid.values() if isinstance(values, list)]
    size = math.prod(sizes)
    # Told, and refused, before a combination is made.
    _require_size(size, f"The grid has {' x '.join(f'{each:,}' for each in sizes)} = ")
    columns = tuple(
        tuple(_value(each, name, number) for number, each in enumerate(values))
        for name, values in zip(names, grid.values(), strict=True)
        if isinstance(values, list)
    )
    return ArrayRequest("grid", range(size), names, columns=columns)


def _of_csv(text: str) -> ArrayRequest:
    # An empty line is no member; a single empty value is one where it is quoted.
    rows = [row for row in _csv_rows(text) if row == [""] or any(cell.strip() for cell in row)]
    if not rows:
        raise ValueError("The CSV of the array is empty: write a line of names, and a line for each member.")
    names = _names([cell.strip() for cell in rows[0]])
    body = rows[1:]
    if not body:
        raise ValueError(
            f"The CSV of the array has no line below its names: an array has 1 to {MOST_MEMBERS:,} members."
        )
    _require_size(len(body))
    found = []
    for number, row in enumerate(body):
        if len(row) != len(names):
            raise ValueError(
                f"Line {number + 2} of the CSV has {count(len(row), 'value')}; its names are {len(names):,}: "
                f"{', '.join(names[:10])}."
            )
        found.append(tuple(_value(cell.strip(), name, number) for name, cell in zip(names, row, strict=True)))
    return ArrayRequest("csv", range(len(found)), names, tuple(found))


def _csv_rows(text: str) -> Iterator[list[str]]:
    """Yield the rows of a CSV; a cell may be longer than `csv` allows by itself, and is then refused by its name."""
    try:
        yield from csv.reader(io.StringIO(text.lstrip("\ufeff")), strict=True)
    except csv.Error as error:
        if "field larger" in str(error):
            raise ValueError(
                f"A value of the CSV has more than {csv.field_size_limit():,} characters; at most "
                f"{MOST_CHARACTERS:,} are allowed."
            ) from error
        raise ValueError(f"The CSV of the array cannot be read: {error}.") from error


def _names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of parameters; refuse what is no name of a variable, one of ours, or given twice."""
    if len(names) > MOST_PARAMETERS:
        raise ValueError(f"The array has {len(names):,} parameters; at most {MOST_PARAMETERS} are allowed.")
    for place, name in enumerate(names):
        if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
            raise ValueError(
                f"{invalid.shown(name)} is no name of a parameter: it becomes a variable, so use letters, digits and "
                f"underscores, begin with none of the digits, and take at most {LONGEST_NAME} characters."
            )
        if name.upper().startswith(OURS) and tuple(names) != (VALUE,):
            raise ValueError(
                f"The parameter {name} is named like variables of Chamber ({OURS}...): choose another name."
            )
        if name in names[:place]:
            raise ValueError(f"The parameter {name} is named twice: name each once.")
    return tuple(names)


def _value(value: object, name: str, number: int) -> str:
    if isinstance(value, bool):
        value = "true" if value else "false"
    if not isinstance(value, str | int | float):
        raise ValueError(f"{_place(name, number)} is {invalid.shown(value)}; it must be text or a number.")
    text = str(value)
    if len(text) > MOST_CHARACTERS:
        raise ValueError(
            f"{_place(name, number)} has {len(text):,} characters; at most {MOST_CHARACTERS:,} are allowed."
        )
    return text


def _place(name: str, number: int) -> str:
    return f"array[{number}]" if name == VALUE else f"Value {number + 1:,} of the parameter {name}"


def _require_size(size: int, before: str = "The array has ") -> None:
    if size > MOST_MEMBERS:
        raise ValueError(f"{before}{size:,} members; at most {MOST_MEMBERS:,} are allowed.")


def conflict(asked: ArrayRequest, environment: Mapping[str, str]) -> str:
    """Return which variable of a request an array sets too; "" for none."""
    taken = [name for name in (*asked.parameters, *TOLD) if name in environment]
    if not taken:
        return ""
    are = (
        f"variables {', '.join(taken[:5])} of environment are"
        if taken[1:]
        else f"variable {taken[0]} of environment is"
    )
    return f"The {are} set by the array for each member: leave it out there, or name the parameter otherwise."


def largest_extra(asked: ArrayRequest) -> int:
    """Return how many bytes the parameters of a member have at most, with their names; without building the members."""
    names = sum(len(name) + 6 for name in asked.names)
    if asked.kind == "grid":
        return names + sum(max(len(value.encode()) for value in values) for values in asked.columns)
    return names + max((sum(len(value.encode()) for value in row) for row in asked.rows), default=0)
