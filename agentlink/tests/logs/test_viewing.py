"""What one who looks holds, and what he is told of what went wrong on the way."""

from typing import Any
from uuid import UUID

import pytest

from agentlink.logs.sources import Source
from agentlink.logs.texts import LogLines, LogNote, Told, as_event, as_text, last_lines
from agentlink.logs.viewing import HELD_CHARACTERS, _Viewer

SOURCE = Source(UUID(int=1), UUID(int=2), 1, 0, UUID(int=3), "east")


def viewer(**fields: Any) -> _Viewer:
    given = {"follow": True, "tail": None, "after": "", "allowed": None, **fields}
    return _Viewer(SOURCE, UUID(int=3), **given)


def lines(seen: _Viewer, sequence: int, text: str, *, stream: str = "e.1", **fields: Any) -> None:
    seen._lines(
        {
            "stream": stream,
            "sequence": sequence,
            "text": text,
            "dropped": 0,
            "cursor": "",
            "missed": False,
            **fields,
        }
    )


def told(seen: _Viewer) -> list[Told]:
    found = []
    while (each := seen._next()) is not None:
        found.append(each)
    return found


async def test_who_reads_slowly_holds_little_and_is_told_what_he_missed() -> None:
    slow = viewer()
    for sequence in range(1, 1001):
        lines(slow, sequence, f"{sequence:04} " + "x" * 994 + "\n", dropped=1 if sequence == 1 else 0)
        assert slow._size <= HELD_CHARACTERS
    first, *rest = told(slow)
    assert isinstance(first, LogNote)
    assert first.code == "slow"
    shown = [each.text[:4] for each in rest if isinstance(each, LogLines)]
    assert shown[-1] == "1000"
    assert int(first.message.split()[0].replace(",", "")) == 1001 - len(shown)
    assert (slow._size, told(slow)) == (0, [])


async def test_lines_that_were_lost_on_the_way_leave_a_note_and_none_comes_twice() -> None:
    seen = viewer()
    seen._here("e.1")
    lines(seen, 3, "three\n", missed=True)
    lines(seen, 2, "two\n")
    lines(seen, 4, "four\n")
    lines(seen, 7, "seven\n")
    codes = [each.code if isinstance(each, LogNote) else each.text for each in told(seen)]
    assert codes == ["three\n", "four\n", "lost", "seven\n"]


async def test_a_second_agent_of_the_cluster_is_not_heard_while_the_first_answers() -> None:
    seen = viewer()
    seen._here("first.1")
    seen._here("second.1")
    assert seen._stream == "first.1"
    seen._here("first.2")
    assert seen._stream == "first.2"
    seen._answered_at -= 60
    seen._here("second.1")
    assert seen._stream == "second.1"


async def test_the_last_lines_are_cut_to_what_was_asked_for_once_they_are_there() -> None:
    seen = viewer(tail=2)
    lines(seen, 1, "one\ntwo\n", cursor="1")
    assert told(seen) == []
    lines(seen, 2, "three\n", cursor="2")
    seen._settles_at = 0.0
    seen._settle()
    lines(seen, 3, "four\n")
    assert told(seen) == [LogLines("two\nthree\n", 0, "2"), LogLines("four\n")]


@pytest.mark.parametrize(
    ("each", "text"),
    [
        (LogLines("a\n"), "a\n"),
        (LogLines("a\n", 1204), "… 1,204 lines dropped here: more than 1 MiB/s\na\n"),
        (LogLines("", 1), "… 1 line dropped here: more than 1 MiB/s\n"),
        (LogNote("away", "It is away."), "… It is away.\n"),
        (LogNote("ended", "", ends=True), ""),
    ],
)
def test_what_is_told_is_text_for_people(each: Told, text: str) -> None:
    assert as_text(each) == text


def test_what_is_told_is_events_for_programs() -> None:
    assert (
        as_event(LogLines("a\nb\n", 0, "7"))
        == 'id: 7\nevent: lines\ndata: {"text": "a\\nb\\n", "dropped": ""}\n\n'
    )
    assert as_event(LogNote("x", "Y.")) == 'event: note\ndata: {"code": "x", "message": "Y."}\n\n'
    assert as_event(LogNote("x", "", ends=True)).startswith("event: end\n")


@pytest.mark.parametrize(
    ("count", "found"), [(None, ("a\nb\n", 0)), (1, ("b\n", 1)), (0, ("", 2)), (9, ("a\nb\n", 0))]
)
def test_the_last_lines_of_a_text(count: int | None, found: tuple[str, int]) -> None:
    assert last_lines("a\nb\n", count) == found
