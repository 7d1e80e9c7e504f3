"""A small disk for the database: a memory file system that can be made full and roomy again."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOMY = "3g"
LEFT_KIB = 64


class CannotMount(Exception):  # noqa: N818 - an outcome of the machine
    """This machine lets us mount nothing."""


class Disk:
    """A mounted memory file system; nothing is taken of the memory that is not used."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self) -> None:
        """Leave room for almost nothing more than what is there."""
        used = os.statvfs(self.folder)
        kib = (used.f_blocks - used.f_bfree) * used.f_frsize // 1024
        self._resize(f"{kib + LEFT_KIB}k")

    def free(self) -> None:
        """Make room again."""
        self._resize(ROOMY)

    def _resize(self, size: str) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size}", str(self.folder)], check=True)


@contextmanager
def mounted() -> Iterator[Disk]:
    """Have a disk inside the block; raise `CannotMount`."""
    folder = Path(tempfile.mkdtemp(prefix="chaos-disk-"))
    command = ["mount", "-t", "tmpfs", "-o", f"size={ROOMY},mode=0777", "chaos", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CannotMount(done.stderr.strip())
        try:
            yield Disk(folder)
        finally:
            subprocess.run(["umount", "--lazy", str(folder)], check=False)
    finally:
        folder.rmdir()
