"""What a line must look like to be a note, and what is said of one that does not."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chamber import notes
from chamber.notes import BadNote, Note, NoteKind, NoteProblem, read_line


@pytest.mark.parametrize(
    ("line", "note"),
    [
        ("::chamber checkpoint step=1200::", Note(NoteKind.CHECKPOINT, step=1200)),
        ("12:01 INFO ::chamber checkpoint step=0:: ", Note(NoteKind.CHECKPOINT, step=0)),
        (
            "::chamber checkpoint step=7 at=2026-01-31T12:00:00Z attempt=2::",
            Note(NoteKind.CHECKPOINT, step=7, at=datetime(2026, 1, 31, 12, tzinfo=UTC), attempt=2),
        ),
        ("::chamber progress 0.42::", Note(NoteKind.PROGRESS, millionths=420_000)),
        ("::chamber progress 1::", Note(NoteKind.PROGRESS, millionths=1_000_000)),
        ("::chamber progress 1e-3::", Note(NoteKind.PROGRESS, millionths=1000)),
        (
            "::chamber link wandb=https://wandb.example/run?a=1&b=2::",
            Note(NoteKind.LINK, name="wandb", url="https://wandb.example/run?a=1&b=2"),
        ),
        ("::chamber link tb=http://[::1]:6006/::", Note(NoteKind.LINK, name="tb", url="http://[::1]:6006/")),
    ],
)
def test_a_line_is_read(line: str, note: Note) -> None:
    assert read_line(line) == note


@pytest.mark.parametrize(
    "line", ["", "step 1200", "chamber checkpoint", "::chamberlain::", "std::chamber::x"]
)
def test_other_lines_mean_nothing(line: str) -> None:
    assert read_line(line) is None


@pytest.mark.parametrize(
    ("line", "problem", "said"),
    [
        ("::chamber checkpoint step=12", "unreadable", "does not end: write ::"),
        (
            "::chamber saved 3::",
            "unreadable",
            "'saved' is no kind of note; allowed are checkpoint, progress, link.",
        ),
        (
            "::chamber checkpoint::",
            "step",
            "is ''; it must be a whole number from 0 to 1,000,000,000,000,000.",
        ),
        ("::chamber checkpoint step=-1::", "step", "is '-1'"),
        ("::chamber checkpoint step=1.5::", "step", "is '1.5'"),
        ("::chamber checkpoint step=\u0663::", "step", "whole number"),
        ("::chamber checkpoint step=9999999999999999::", "step", "from 0 to 1,000,000,000,000,000."),
        ("::chamber checkpoint step=1 loss=2::", "unreadable", "'loss=2' is not read of a checkpoint"),
        ("::chamber checkpoint step=1 at=noon::", "time", "is 'noon'; it must have its date and zone"),
        ("::chamber checkpoint step=1 at=2026-01-31T12:00:00::", "time", "date and zone"),
        ("::chamber checkpoint step=1 attempt=x::", "other-attempt", "is 'x'; it must be the number"),
        (
            "::chamber progress 1.01::",
            "progress",
            "is '1.01'; it must be a part of 1, from 0 to 1, such as 0.42.",
        ),
        ("::chamber progress -0.1::", "progress", "is '-0.1'"),
        ("::chamber progress 42%::", "progress", "is '42%'"),
        ("::chamber progress nan::", "progress", "is 'nan'"),
        ("::chamber progress 1e999::", "progress", "is '1e999'"),
        ("::chamber progress::", "progress", "is ''"),
        ("::chamber link wandb::", "link", "is ''; it must begin with https://"),
        ("::chamber link W&B=https://x.example::", "link", "is 'W&B'; allowed are up to 40 of a-z"),
        ("::chamber link a=javascript:alert(1)::", "link", "must begin with https:// or http:// and a host"),
        ("::chamber link a=https://me:secret@x.example/::", "link", "holds a user name or a password"),
        ("::chamber link a=https://[x/::", "link", "which is none"),
        (
            f"::chamber link a=https://x.example/{'a' * 500}::",
            "link",
            "has 518 characters; at most 500 are allowed.",
        ),
        (f"{'x' * 1000}::chamber progress 0.1::", "unreadable", "1,024 characters; at most 1,000 are read."),
    ],
)
def test_what_is_no_note_is_said_with_its_value_and_limit(line: str, problem: str, said: str) -> None:
    bad = read_line(line)
    assert isinstance(bad, BadNote)
    assert bad.problem == NoteProblem(problem)
    assert said in bad.message
    assert "secret" not in bad.message


def test_values_of_a_call_are_held_to_the_same() -> None:
    assert notes.progress(0.42) == Note(NoteKind.PROGRESS, millionths=420_000)
    no_parts: list[object] = [True, None, [], 2, float("nan"), float("inf"), -1]
    assert all(isinstance(notes.progress(wrong), BadNote) for wrong in no_parts)
    no_steps: list[object] = [True, None, 1.5, [], -1, 10**16]
    assert all(isinstance(notes.checkpoint(wrong), BadNote) for wrong in no_steps)
    assert isinstance(notes.link("a", None), BadNote)
    assert isinstance(notes.link(3, "https://x.example"), BadNote)


@given(
    st.text(max_size=200), st.sampled_from(["checkpoint ", "progress ", "link ", "checkpoint step=1 at=", ""])
)
def test_whatever_is_written_is_an_answer_that_can_be_told(text: str, kind: str) -> None:
    read = read_line(f"::chamber {kind}{text}::")
    if isinstance(read, BadNote):
        assert read.message.isprintable()
        assert len(read.message) < 400
    elif read is not None and read.millionths is not None:
        assert 0 <= read.millionths <= notes.MILLION
