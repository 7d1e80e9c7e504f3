"""Where a simulated cluster keeps its jobs: a file to which each change adds a line, so that it costs what changed.

A line is a JSON object of jobs by attempt, null for those that were forgotten. A line that was cut short by the end of
the process, or by a full disk, is the last one and counts for nothing.
"""

from collections.abc import Mapping
from pathlib import Path
from uuid import UUID

from pydantic import TypeAdapter, ValidationError

from agentlink.agent.backends.jobs import Job

ROOM_BYTES = 1024 * 1024
"""The file is written anew when it has grown by this much and to several times what is in it."""

_LINE = TypeAdapter(dict[UUID, Job | None])


class StateFile:
    """One file, written by one process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = self._whole = -1
        """Bytes of the file, and of its first line; -1 while it is not as this process left it."""

    def read(self) -> dict[UUID, Job]:
        """Return the jobs that the file has; none where there is no such file or it cannot be read."""
        jobs: dict[UUID, Job] = {}
        try:
            for line in self._path.read_bytes().splitlines():
                for attempt, job in _LINE.validate_json(line).items():
                    if job is None:
                        jobs.pop(attempt, None)
                    else:
                        jobs[attempt] = job
        except (OSError, ValidationError):
            pass
        return jobs

    def write(self, changed: Mapping[UUID, Job | None], jobs: Mapping[UUID, Job]) -> None:
        """Store what changed; `jobs` is everything. Raises `OSError`; then the next change writes everything."""
        size, self._size = self._size, -1
        if size < 0 or size > ROOM_BYTES + 4 * self._whole:
            self._size = self._whole = self._begin(jobs)
            return
        line = _LINE.dump_json(dict(changed), exclude_defaults=True) + b"\n"
        with self._path.open("ab") as file:
            file.write(line)
        self._size = size + len(line)

    def _begin(self, jobs: Mapping[UUID, Job]) -> int:
        """Write everything into a new file, put that in the place of the old one, and return its size."""
        new = self._path.with_suffix(".new")
        line = _LINE.dump_json(dict(jobs), exclude_defaults=True) + b"\n"
        new.write_bytes(line)
        new.replace(self._path)
        return len(line)
