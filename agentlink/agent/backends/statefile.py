"""Where a simulated cluster keeps its jobs, and its agent what it remembers of the server: a file to which each
change adds a line, so that it costs what changed.

A line is a JSON object of jobs by attempt, null for those that were forgotten; and the server's latest epoch, as
`AgentMemory` writes it down. A line that was cut short by the end of the process, or by a full disk, is the last one
and counts for nothing.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal
from uuid import UUID

from pydantic import TypeAdapter, ValidationError

from agentlink.agent.backends.jobs import Job
from agentlink.agent.memory import AgentMemory

ROOM_BYTES = 1024 * 1024
"""The file is written anew when it has grown by this much and to several times what is in it."""

_LINE = TypeAdapter(dict[UUID | Literal["epoch"], Job | str | None])


class StateFile:
    """One file, written by one process."""

    def __init__(self, path: Path) -> None:
        self._path, self._memory = path, AgentMemory()
        self._remembered = ""
        self._size = self._whole = -1
        """Bytes of the file, and of its first line; -1 while it is not as this process left it."""

    @property
    def memory(self) -> AgentMemory:
        """Return what the agent remembers; what it learns is stored with the next `write`."""
        return self._memory

    @property
    def is_behind(self) -> bool:
        """Return whether the agent has learned what is not stored yet."""
        return self._memory.text() != self._remembered

    def read(self) -> dict[UUID, Job]:
        """Return the jobs that the file has, and recall what the agent remembered; nothing where it cannot be read."""
        jobs: dict[UUID, Job] = {}
        try:
            for line in self._path.read_bytes().splitlines():
                for attempt, job in _LINE.validate_json(line).items():
                    if attempt == "epoch":
                        self._memory.recall(str(job))
                    elif isinstance(job, Job):
                        jobs[attempt] = job
                    else:
                        jobs.pop(attempt, None)
        except (OSError, ValidationError):
            pass
        self._remembered = self._memory.text()
        return jobs

    def write(self, changed: Mapping[UUID, Job | None], jobs: Mapping[UUID, Job]) -> None:
        """Store what changed; `jobs` is everything. Raises `OSError`; then the next change writes everything."""
        size, self._size = self._size, -1
        text = self._memory.text()
        if size < 0 or size > ROOM_BYTES + 4 * self._whole:
            self._size = self._whole = self._begin(_line(jobs, text))
        else:
            line = _line(changed, text)
            with self._path.open("ab") as file:
                file.write(line)
            self._size = size + len(line)
        self._remembered = text

    def _begin(self, line: bytes) -> int:
        """Write everything into a new file, put that in the place of the old one, and return its size."""
        new = self._path.with_suffix(".new")
        new.write_bytes(line)
        new.replace(self._path)
        return len(line)


def _line(jobs: Mapping[UUID, Job | None], epoch: str) -> bytes:
    line: dict[UUID | Literal["epoch"], Job | str | None] = {"epoch": epoch} if epoch else {}
    line.update(jobs.items())
    return _LINE.dump_json(line, exclude_defaults=True) + b"\n"
