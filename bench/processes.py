"""CPU seconds of processes with all that they started, from /proc."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(root: int) -> float:
    """Return what the process, its descendants, and those of them that ended have used so far."""
    children: dict[int, list[int]] = defaultdict(list)
    own: dict[int, float] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            # The name in parentheses may hold spaces; what follows it does not.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        pid = int(folder.name)
        children[int(fields[1])].append(pid)
        own[pid] = sum(int(ticks) for ticks in fields[11:15]) / TICKS
    waiting, total = [root], 0.0
    while waiting:
        pid = waiting.pop()
        total += own.get(pid, 0.0)
        waiting += children[pid]
    return total
