"""People of a CSV, line by line: the one reading of such files, for the page, the API and the command line.

It knows neither database nor framework. What is wrong with the whole file is raised, with one line is its fault.
"""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass, field

COLUMNS = ("username", "name", "email", "team", "role")
MOST_LINES = 10_000
"""Of people in a file."""
SEPARATORS = ",;\t"
"""What spreadsheets write, by country, and what is pasted from one."""
FORMULA = "=+-@"
"""With these a spreadsheet has a formula begin."""


class UnreadableList(ValueError):  # noqa: N818 - named after what was sent
    """A file of which nobody is added; a sentence."""


@dataclass(frozen=True, slots=True)
class CsvPerson:
    """Somebody of a line: what stands in the columns, and what of that can be read from the file alone as wrong."""

    line: int
    values: dict[str, str] = field(default_factory=dict)
    fault: str = ""

    @property
    def username(self) -> str:
        """The user name; "" where there is none."""
        return self.values.get("username", "")


def decoded(content: bytes) -> str:
    """Return the text of a file in UTF-8, with a byte order mark or without; raise `UnreadableList`."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableList(
            f"The file is not in UTF-8 (byte {error.start + 1}); save it as CSV in UTF-8."
        ) from error


def people_of(text: str, *, most: int = MOST_LINES) -> list[CsvPerson]:
    """Return the people of a CSV in the order of its lines; empty lines are left out. Raise `UnreadableList`."""
    lines = _lines(text.removeprefix("\ufeff"))
    _, heading = next(lines, (1, []))
    columns = _columns(heading)
    found: list[CsvPerson] = []
    names: dict[str, int] = {}
    addresses: dict[str, int] = {}
    for line, cells in lines:
        if len(found) == most:
            raise UnreadableList(
                f"The file has people in more than {most:,} lines, the most that are taken at once. Split it."
            )
        values, fault = _values(columns, cells)
        fault = fault or _twice(line, values, names, addresses)
        found.append(CsvPerson(line, values, fault))
    if not found:
        raise UnreadableList(
            "The file has a heading and nobody below it: write each person into a line of its own."
        )
    return found


def _lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not empty, each with the number of the line that it begins in."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_separator(text), strict=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = [cell.strip() for cell in next(reader)]
        except StopIteration:
            return
        except csv.Error as error:
            raise UnreadableList(f"Line {line} is no CSV: {error}.") from error
        if any("\x00" in cell for cell in cells):
            raise UnreadableList(f"Line {line} is no CSV: it contains NUL.")
        if any(cells):
            yield line, cells


def _separator(text: str) -> str:
    """Return what separates the columns: of what may, that which stands in the heading most often."""
    heading = text.lstrip().partition("\n")[0]
    return max(SEPARATORS, key=heading.count)


def _columns(heading: list[str]) -> list[str]:
    """Return the names of the columns, without empty ones at the end; raise `UnreadableList` for an unknown one."""
    columns = [name.casefold() for name in heading]
    while columns and not columns[-1]:
        columns.pop()
    allowed = f"columns are {', '.join(COLUMNS)}"
    for place, name in enumerate(columns):
        if name not in COLUMNS:
            told = f"There is a column {heading[place][:60]!r}" if name else f"Column {place + 1} has no name"
            raise UnreadableList(f"{told} in the heading; {allowed}.")
        if name in columns[:place]:
            raise UnreadableList(f"The column {name!r} stands twice in the heading; {allowed}.")
    if "username" not in columns:
        raise UnreadableList(f"There is no column 'username' in the heading, the first line; {allowed}.")
    return columns


def _values(columns: list[str], cells: list[str]) -> tuple[dict[str, str], str]:
    """Return what a line says, and what is wrong with it."""
    values = {name: cell for name, cell in zip(columns, cells, strict=False) if cell}
    if more := [cell for cell in cells[len(columns) :] if cell]:
        return values, f"There are more values than columns: {', '.join(more)[:80]}."
    if "username" not in values:
        return values, "There is no user name."
    for name, value in values.items():
        if value[0] in FORMULA:
            return values, (
                f"The column {name!r} begins with {value[0]!r}, as a formula of a spreadsheet does: {value[:60]!r}. "
                "Write it without."
            )
    return values, ""


def _twice(line: int, values: dict[str, str], names: dict[str, int], addresses: dict[str, int]) -> str:
    """Note who stands in a line; return why they cannot where another line has the name or address."""
    name, address = values.get("username", "").casefold(), values.get("email", "").casefold()
    if name and (other := names.setdefault(name, line)) != line:
        return f"The user name {name[:60]} stands in line {other} already."
    if address and (other := addresses.setdefault(address, line)) != line:
        return f"The e-mail address {address[:80]} stands in line {other} already."
    return ""
