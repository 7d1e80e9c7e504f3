"""How lines and what is to be said about them are told: as text for people, and as events for programs."""

import json
from dataclasses import dataclass

from agentlink.agent.streams import MIB, POD_A_SECOND


@dataclass(frozen=True, slots=True)
class LogLines:
    """Whole lines of a pod; `dropped` others stood before them. `cursor` is the place after them, where known."""

    text: str
    dropped: int = 0
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class LogNote:
    """Something about the lines that is no line: a code and a sentence. After one that `ends`, nothing comes."""

    code: str
    message: str
    ends: bool = False


Told = LogLines | LogNote


def dropped_sentence(count: int) -> str:
    """Return what stands where lines are missing."""
    noun = "line" if count == 1 else "lines"
    return f"{count:,} {noun} dropped here: more than {POD_A_SECOND // MIB} MiB/s"


def as_text(told: Told) -> str:
    """Return what is told as lines of text; what is no line of the pod begins with an ellipsis."""
    if isinstance(told, LogNote):
        return f"… {told.message}\n" if told.message else ""
    before = f"… {dropped_sentence(told.dropped)}\n" if told.dropped else ""
    return before + told.text


def as_event(told: Told) -> str:
    """Return what is told as a server-sent event: `lines`, `note`, or `end`, after which none comes."""
    if isinstance(told, LogNote):
        kind, data, place = ("end" if told.ends else "note"), {"code": told.code, "message": told.message}, ""
    else:
        said = dropped_sentence(told.dropped) if told.dropped else ""
        kind, data = "lines", {"text": told.text, "dropped": said}
        place = f"id: {told.cursor}\n" if told.cursor else ""
    return f"{place}event: {kind}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"


def last_lines(text: str, count: int | None) -> tuple[str, int]:
    """Return the last so many lines of a text, all for None, and how many stand before them."""
    lines = text.splitlines(keepends=True)
    if count is None or len(lines) <= count:
        return text, 0
    return "".join(lines[len(lines) - count :]), len(lines) - count
