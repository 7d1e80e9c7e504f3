"""The disk of the database: how much of it is taken, measured wherever that can be."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError

from chamber.doctor.database import on_postgresql, rows
from chamber.doctor.finding import DoctorFinding, Fact
from chamber.metrics.storage import GIB, is_on_this_machine, servers_folder
from chamber.serving import surroundings

LEAST_FREE_BYTES = GIB
LEAST_FREE_PART = 0.1


def disk() -> Iterator[DoctorFinding | Fact]:
    """Look how full the disk is: this machine's, or one whose size is set; else say that it cannot be known."""
    size = size_bytes()
    takes = f"The database takes {_amount(size)}"
    folder = data_folder()
    if folder is not None:
        usage = shutil.disk_usage(folder)
        told = f"{_amount(usage.free)} of {_amount(usage.total)}"
        if usage.free < _least_free(usage.total):
            yield DoctorFinding(f"The disk of the database has {told} free.", _advice(usage.total))
        else:
            yield Fact(f"{takes}; its disk has {told} free.")
    elif settings.DATABASE_DISK_GIB:
        total = settings.DATABASE_DISK_GIB * GIB
        if total - size < _least_free(total):
            problem = f"{takes} of its disk's {_amount(total)} (CHAMBER_DATABASE_DISK_GIB)."
            yield DoctorFinding(problem, _advice(total))
        else:
            yield Fact(f"{takes} of its disk's {_amount(total)} (CHAMBER_DATABASE_DISK_GIB).")
    else:
        yield Fact(
            f"{takes}; how much room its disk has cannot be measured from here. {_how_it_can_be_known()}"
        )


def _how_it_can_be_known() -> str:
    chosen = settings.DATABASES["default"]
    size = "CHAMBER_DATABASE_DISK_GIB to the size of that disk."
    if is_on_this_machine(chosen["HOST"]):
        return f"Grant the role {chosen['USER']} pg_read_all_settings, or set {size}"
    return f"Set {size}"


def _least_free(total: int) -> float:
    return max(LEAST_FREE_BYTES, LEAST_FREE_PART * total)


def _advice(total: int) -> str:
    return (
        f"Make room, or give it a larger disk: {_amount(_least_free(total))} of it should be free. "
        "A database whose disk is full takes no workloads and no reports."
    )


def size_bytes() -> int:
    """Return the size of the database with its indexes."""
    if on_postgresql():
        [(size,)] = rows("SELECT pg_database_size(current_database())")
        return int(size)
    path = Path(settings.DATABASES["default"]["NAME"])
    return sum(each.stat().st_size for each in path.parent.glob(f"{path.name}*"))


def data_folder() -> Path | None:
    """Return a folder on the disk of the database; None where that cannot be known from here."""
    chosen = settings.DATABASES["default"]
    if not on_postgresql():
        return Path(chosen["NAME"]).resolve().parent
    if not is_on_this_machine(chosen["HOST"]):
        return None
    return _named_folder() or _folder_of_process()


def _named_folder() -> Path | None:
    """Return the folder that the server names; only who may read all settings is told."""
    try:
        [(name,)] = rows("SELECT current_setting('data_directory')")
    except DatabaseError:
        return None
    return servers_folder(name)


def _folder_of_process() -> Path | None:
    """Return the folder in which the server's process for a connection of ours works: its data folder.

    Of a process on this machine that root, or the server's own user, may look at.
    """
    with closing(surroundings.connection_without_pool()) as found, found.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        process = Path("/proc") / str(cursor.fetchone()[0])
        try:
            command = (process / "comm").read_text().strip()
            folder = (process / "cwd").readlink()
        except OSError:
            return None
        return folder if command.startswith("postgres") and (folder / "PG_VERSION").exists() else None


def _amount(size: float) -> str:
    """Return bytes in the unit that reads best."""
    return f"{size / GIB:,.1f} GiB" if size >= GIB else f"{size / (1 << 20):,.1f} MiB"
