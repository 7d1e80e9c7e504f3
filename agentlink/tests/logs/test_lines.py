"""What containers write, however it is cut and whatever is in it, becomes whole lines that may be shown."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlink.agent.lines import LONGEST_LINE, LineSplitter, printable
from agentlink.protocol.logs import UNPRINTABLE


def lines_of(*pieces: bytes) -> list[str]:
    lines = LineSplitter()
    found = [line for piece in pieces for line in lines.feed(piece)]
    return found + lines.flush()


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("plain é 漢", "plain é 漢"),
        ("\ttabs\tstay", "\ttabs\tstay"),
        ("\x1b[1;31mred\x1b[0m text", "red text"),
        ("\x1b]0;title\x07shown", "shown"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b(Bcharset\x1b7\x1bc", "charset"),
        ("\x1b[2J\x1b[Hcleared", "cleared"),
        ("unfinished \x1b[3", "unfinished "),
        ("escape \x1b", "escape ␛"),
        ("nul\x00bell\x07", "nul␀bell␇"),
        ("del\x7f c1\x85", "del␡ c1�"),
        ("10%\r20%\r30%", "30%"),
        ("windows\r", "windows"),
        ("done\r\r", "done"),
        ("\u202eevil\u2066", "�evil�"),
        ("two\u2028lines", "two�lines"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
    ],
)
def test_a_line_is_shown_as(written: str, shown: str) -> None:
    assert printable(written) == shown
    assert lines_of(f"{written}\n".encode()) == [f"{shown}\n"]


def test_bytes_that_are_no_text_are_shown_as_such_also_where_a_character_is_cut() -> None:
    assert lines_of(b"a\xffb\n") == ["a�b\n"]
    assert lines_of("é".encode()[:1], "é".encode()[1:] + b"!\n") == ["é!\n"]
    assert lines_of("é".encode()[:1]) == ["�\n"]


def test_an_endless_line_is_cut_and_little_of_it_is_held() -> None:
    lines = LineSplitter()
    found: list[str] = []
    for _ in range(200):
        found += lines.feed(b"x" * 5000)
        assert len(lines._rest) < LONGEST_LINE
    found += lines.flush()
    assert "".join(found).replace("\n", "") == "x" * 1_000_000
    assert max(map(len, found)) <= LONGEST_LINE


def test_a_progress_bar_without_an_end_holds_its_latest_state_only() -> None:
    lines = LineSplitter()
    for percent in range(100_000):
        assert lines.feed(f"\r{percent}%".encode()) == []
        assert len(lines._rest) < 20
    assert lines.flush() == ["99999%\n"]
    assert lines.feed(b"10%\r") + lines.feed(b"20%\r") + lines.feed(b"\n") == ["20%\n"]


def test_what_is_skipped_is_counted_and_its_rest_does_not_come_back() -> None:
    lines = LineSplitter()
    lines.feed(b"begun")
    assert lines.skip(b" ended\nsecond\nthird") == 2
    assert lines.feed(b"fourth\n") == ["fourth\n"]


@given(
    st.lists(
        st.binary(max_size=40) | st.sampled_from([b"\x1b[31m", b"\r", b"\n", b"\r\n", "漢".encode(), b"\xe6"])
    )
)
def test_whatever_comes_is_printable_and_bounded(pieces: Sequence[bytes]) -> None:
    for line in lines_of(*pieces):
        assert line.endswith("\n")
        assert UNPRINTABLE.search(line) is None
        json.dumps(line).encode()


@given(st.lists(st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), max_size=20)), st.integers(1, 7))
def test_plain_lines_come_out_as_they_went_in_however_they_are_cut(written: list[str], size: int) -> None:
    data = "".join(f"{line}\n" for line in written).encode()
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    assert lines_of(*pieces) == [f"{line}\n" for line in written]
