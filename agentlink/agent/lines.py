"""What a container wrote, as lines that can be shown anywhere: bytes in, whole lines of printable text out.

- Bytes that are no UTF-8 become U+FFFD.
- A carriage return begins its line anew, as on a terminal: of a progress bar the latest state is left.
- Escape sequences (colours, movements of the cursor) are taken out; other control characters are written as their
  pictures (NUL as ␀), and characters that turn the direction of writing as U+FFFD.
- A line longer than `LONGEST_LINE` is cut into several.
"""

import codecs
import re

from agentlink.protocol.logs import UNPRINTABLE

LONGEST_LINE = 16 * 1024

_SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*(?:[@-~]|$)"  # CSI: colours and the cursor
    r"|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\|$)"  # OSC and its like, up to their end: titles, links
    r"|[ -/]*[0-~])"
)


def _picture(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"


def printable(line: str) -> str:
    """Return a line (without its newline) as it is shown."""
    if UNPRINTABLE.search(line) is None:
        return line
    line = line.rstrip("\r")
    line = _latest(line)
    return UNPRINTABLE.sub(_picture, _SEQUENCE.sub("", line))


def _latest(line: str) -> str:
    """Return what is left of a line whose beginning was written over: the last that was written at all."""
    return next((part for part in reversed(line.split("\r")) if part), "") if "\r" in line else line


class LineSplitter:
    """Makes lines of pieces, in whatever way they are cut. Keeps at most one unfinished line."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    @property
    def unfinished(self) -> bool:
        """Return whether a line has begun that has no end yet."""
        return bool(self._rest)

    def feed(self, data: bytes) -> list[str]:
        """Return the lines that are whole by now, each with its newline."""
        text = self._rest + self._decoder.decode(data)
        if "\n" not in text:
            # Split only where it can matter: an endless line comes in very many pieces.
            return self._keep(text)
        *whole, rest = text.split("\n")
        found = [piece for line in whole for piece in _cut(printable(line))]
        return found + self._keep(rest)

    def skip(self, data: bytes) -> int:
        """Leave out what is fed, and the line that it goes on with; return how many lines have ended in it."""
        self._decoder.reset()
        self._rest = ""
        return data.count(b"\n")

    def flush(self) -> list[str]:
        """Return the unfinished line as if it had ended."""
        rest, self._rest = self._rest + self._decoder.decode(b"", final=True), ""
        self._decoder.reset()
        return _cut(printable(rest)) if rest else []

    def _keep(self, rest: str) -> list[str]:
        if "\r" in rest:
            latest = _latest(rest)
            # What follows decides whether the last return begins anew or belongs to a newline.
            rest = latest + "\r" if rest.endswith("\r") else latest
        whole = len(rest) - len(rest) % LONGEST_LINE
        self._rest = rest[whole:]
        return _cut(printable(rest[:whole])) if whole else []


def _cut(line: str) -> list[str]:
    if len(line) < LONGEST_LINE:
        return [line + "\n"]
    most = LONGEST_LINE - 1
    return [line[start : start + most] + "\n" for start in range(0, len(line), most)]
