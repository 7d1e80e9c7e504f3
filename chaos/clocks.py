"""Clocks that can be moved from outside, a process group at a time: what a wrong clock does to a machine's processes.

Each group has a file with one number, the seconds by which its clock is ahead. Processes map it into memory, so that
asking for the time costs nothing. Only calendar time is moved: `time.time` and Django's `timezone.now`; timers go on.
"""

import mmap
import os
import struct
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from chaos.imports import when_imported

OFFSET = struct.Struct("d")


def install(folder: str) -> None:
    """Make this process ask the clock of its group, from now on."""
    path = Path(folder) / str(os.getpgrp())
    if not path.exists():
        move(Path(folder), os.getpgrp(), 0.0)
    with path.open("r+b") as file:
        memory = mmap.mmap(file.fileno(), OFFSET.size)
    real = time.time

    def moved() -> float:
        offset: float = OFFSET.unpack_from(memory)[0]
        return real() + offset

    def now() -> datetime:
        return datetime.now(UTC) + timedelta(seconds=OFFSET.unpack_from(memory)[0])

    def change(module: Any) -> None:
        module.now = now

    time.time = moved
    when_imported({"django.utils.timezone": change})


def move(folder: Path, group: int, seconds: float) -> None:
    """Set by how many seconds the clock of a process group is ahead (behind, below 0)."""
    path = folder / str(group)
    with path.open("r+b" if path.exists() else "wb") as file:
        file.write(OFFSET.pack(seconds))
