"""Paths in a container, as submissions and environments say them."""

import re

from chamber import invalid

LONGEST = 255
SCRATCH = "/scratch"
"""Where pods have their scratch space."""
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - in the container
_PATH = re.compile(r"/[A-Za-z0-9._/+@=-]*", re.ASCII)


def problem(path: str) -> str:
    """Return why this is no path of a folder in a container; "" where it is one."""
    if not path.startswith("/"):
        return f"{invalid.shown(path)} is no whole path: begin with a slash, as in /data."
    if len(path) > LONGEST:
        return f"A path has at most {LONGEST} characters, not {len(path)}."
    if not _PATH.fullmatch(path):
        return (
            f"{invalid.shown(path)} is no path that can be mounted: use letters, digits and . _ - + = @ between "
            "slashes."
        )
    parts = path.split("/")
    if ".." in parts or "." in parts[1:]:
        return f"{invalid.shown(path)} leads elsewhere by . or ..: write the path itself."
    return f"{invalid.shown(path)} has an empty part: write single slashes." if "//" in path else ""


def plain(path: str) -> str:
    """Return a path without the slash at its end."""
    return path.rstrip("/") or "/"


def is_within(path: str, folder: str) -> bool:
    """Return whether a path is a folder, or lies in it."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
