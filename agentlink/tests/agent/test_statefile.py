"""The state file of a simulated cluster: each change costs a line, and no end of the process loses what was stored."""

from pathlib import Path
from uuid import UUID

import pytest

from agentlink.agent.backends import statefile
from agentlink.agent.backends.jobs import Job
from agentlink.agent.backends.statefile import StateFile
from agentlink.protocol import DesiredAttempt, ReportedPhase


def job(number: int, phase: ReportedPhase = ReportedPhase.STARTING) -> Job:
    assignment = DesiredAttempt(
        workload=UUID(int=number), slug="w", attempt=UUID(int=number), number=1, pods=(), let_go=True, image="i",
        grace_seconds=1,
    )  # fmt: skip
    return Job(assignment=assignment, phase=phase, running_at=1.5)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cluster.json"


def test_changes_are_added_and_read_back_in_their_order(path: Path) -> None:
    one, two = UUID(int=1), UUID(int=2)
    jobs = {one: job(1), two: job(2)}
    file = StateFile(path)
    file.write(jobs, jobs)
    whole = path.stat().st_size
    jobs[one] = job(1, ReportedPhase.SUCCEEDED)
    file.write({one: jobs[one]}, jobs)
    assert path.stat().st_size < 2 * whole
    file.write({two: None}, {one: jobs[one]})
    assert StateFile(path).read() == {one: jobs[one]}


@pytest.mark.parametrize("cut", [2, 10, 200])
def test_a_line_that_was_cut_short_counts_for_nothing(path: Path, cut: int) -> None:
    jobs = {UUID(int=1): job(1)}
    file = StateFile(path)
    file.write(jobs, jobs)
    file.write({UUID(int=2): job(2)}, {})
    path.write_bytes(path.read_bytes()[:-cut])
    assert StateFile(path).read() == jobs
    StateFile(path).write({}, jobs)
    assert StateFile(path).read() == jobs


def test_a_file_that_has_grown_is_written_anew(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statefile, "ROOM_BYTES", 100)
    jobs = {UUID(int=1): job(1)}
    file = StateFile(path)
    for _ in range(100):
        file.write(jobs, jobs)
        assert StateFile(path).read() == jobs
    assert path.stat().st_size < 3000


def test_after_a_full_disk_everything_is_written_anew(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = {UUID(int=1): job(1)}
    file = StateFile(path)
    file.write(jobs, jobs)
    with monkeypatch.context() as full:
        full.setattr(Path, "open", lambda *_: (_ for _ in ()).throw(OSError("no space left")))
        with pytest.raises(OSError, match="no space"):
            file.write({UUID(int=2): job(2)}, jobs)
    jobs[UUID(int=3)] = job(3)
    file.write({}, jobs)
    assert StateFile(path).read() == jobs


def test_without_a_file_there_are_no_jobs(path: Path) -> None:
    assert StateFile(path).read() == {}
    path.write_bytes(b"\xffnonsense")
    assert StateFile(path).read() == {}
