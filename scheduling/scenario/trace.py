"""A trace: more workloads, as rows of CSV whose columns are the keys of a workload.

A cell is read like the value of a scenario: an empty one is null, and what begins with a bracket or a brace is
a list or a mapping in YAML's flow style.
"""

import csv
import gzip
import io
import zlib
from collections.abc import Iterator

from .document import (
    MAX_BYTES,
    DocumentMapping,
    Format,
    Scalar,
    ScenarioError,
    Sequence,
    TraceLine,
    Value,
    parse,
)
from .fields import shorten
from .workloads import WORKLOAD_KEYS

REQUIRED_COLUMNS = ("name", "team")
GZIP_SUFFIX = ".gz"

_NESTED = ("[", "{")


def unpacked(content: bytes, name: str) -> bytes:
    """The bytes of a trace, unpacked where its name ends in .gz; refuses more than a scenario may have."""
    if name.lower().endswith(GZIP_SUFFIX):
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
                content = file.read(MAX_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise ScenarioError(f"cannot be unpacked: {error}", in_trace=True) from None
    if len(content) > MAX_BYTES:
        raise ScenarioError(
            f"the trace has more than {MAX_BYTES:,} bytes, which is the most allowed", in_trace=True
        )
    return content


def read_trace(content: bytes) -> Iterator[DocumentMapping]:
    """Yield the rows of a trace, each a mapping like a row of `workloads`; raises ScenarioError where one is
    refused."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = TraceLine(content.count(b"\n", 0, error.start) + 1)
        raise ScenarioError(f"byte 0x{content[error.start]:02x} is not UTF-8 text", line) from None
    del content
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        columns = _columns(next(reader, []))
        key_lines: dict[str, int] = dict.fromkeys(columns, TraceLine(1))
        line = TraceLine(reader.line_num + 1)
        for cells in reader:
            if cells:
                yield _row(columns, key_lines, cells, line)
            line = TraceLine(reader.line_num + 1)
    except csv.Error as error:
        raise ScenarioError(f"not CSV: {error}", TraceLine(max(1, reader.line_num))) from None


def _columns(header: list[str]) -> list[str]:
    """The names of the columns, which are keys of a workload, each once."""
    for number, name in enumerate(header):
        if name not in WORKLOAD_KEYS:
            allowed = ", ".join(sorted(WORKLOAD_KEYS))
            raise ScenarioError(
                f"column {number + 1} of the trace is {shorten(name)}; allowed are {allowed}", TraceLine(1)
            )
        if name in header[:number]:
            raise ScenarioError(
                f"the column {shorten(name)} is given twice; columns are unique", TraceLine(1)
            )
    for name in REQUIRED_COLUMNS:
        if name not in header:
            raise ScenarioError(f"the trace has no column {name}; one is required", TraceLine(1))
    return header


def _row(columns: list[str], key_lines: dict[str, int], cells: list[str], line: TraceLine) -> DocumentMapping:
    if len(cells) != len(columns):
        raise ScenarioError(
            f"the row has {len(cells)} cells; allowed are {len(columns)}, one for each column", line
        )
    values = {key: _cell(key, cell, line) for key, cell in zip(columns, cells, strict=True) if cell}
    return DocumentMapping(line, values, key_lines)


def _cell(key: str, text: str, line: TraceLine) -> Value:
    """The value that a cell writes."""
    if not text.startswith(_NESTED):
        return Scalar(line, text, quoted=False)
    try:
        return _moved(parse(text.encode("utf-8", "surrogatepass"), Format.YAML), line)
    except ScenarioError as error:
        raise ScenarioError(f"{key} is {shorten(text)}: {error.message}", line) from None


def _moved(value: Value, line: TraceLine) -> Value:
    """A value that stands in a line of the trace; as deep as a document may be."""
    if isinstance(value, Scalar):
        return Scalar(line, value.text, value.quoted)
    if isinstance(value, Sequence):
        return Sequence(line, tuple(_moved(item, line) for item in value.items))
    items = {key: _moved(item, line) for key, item in value.items.items()}
    return DocumentMapping(line, items, dict.fromkeys(items, line))
