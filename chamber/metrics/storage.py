"""How large the database is, and its disk with what of it is free, where that can be known from here."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.db import connection

GIB = 1 << 30
OWN_MACHINE = frozenset({"", "localhost", "127.0.0.1", "::1"})
QUERY = """
SELECT pg_database_size(current_database()),
       CASE WHEN pg_has_role('pg_read_all_settings', 'USAGE') THEN current_setting('data_directory') END
"""


@dataclass(frozen=True, slots=True)
class Storage:
    """Bytes: of the database, of its disk, and free there; None where that is not known."""

    size: int
    disk: int | None = None
    free: int | None = None


def read() -> Storage:
    """Return what the database takes and has (1 query): its disk measured, else as CHAMBER_DATABASE_DISK_GIB says."""
    size, folder = _on_postgresql() if connection.vendor == "postgresql" else _in_a_file()
    if folder is not None:
        usage = shutil.disk_usage(folder)
        return Storage(size, usage.total, usage.free)
    return Storage(size, settings.DATABASE_DISK_GIB * GIB or None)


def is_on_this_machine(host: str) -> bool:
    """Return whether the database's server runs on this machine, perhaps in a container."""
    return host in OWN_MACHINE or host.startswith("/")


def servers_folder(name: str) -> Path | None:
    """Return the folder of this name where it is that of a database's server on this machine, and can be measured."""
    folder = Path(name)
    try:
        # A server in a container has its files elsewhere: what is there by that name must be a database's.
        found = (folder / "PG_VERSION").exists()
    except PermissionError:  # the folder is there, and closed to others, as a server's is
        found = True
    try:
        return folder if found and folder.stat() else None
    except OSError:  # what it lies in is closed, too
        return None


def _on_postgresql() -> tuple[int, Path | None]:
    with connection.cursor() as cursor:
        cursor.execute(QUERY)
        size, name = cursor.fetchone()
    here = is_on_this_machine(str(settings.DATABASES["default"]["HOST"]))
    return int(size), servers_folder(name) if here and name else None


def _in_a_file() -> tuple[int, Path | None]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()")
        [size] = cursor.fetchone()
    folder = Path(settings.DATABASES["default"]["NAME"]).parent
    return int(size), folder if folder.is_dir() else None
