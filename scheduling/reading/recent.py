"""A picture of a moment ago, kept by each process for what people ask of the engine: previews, what-ifs."""

import threading
from datetime import timedelta

from django.utils import timezone

from scheduling.reading.picture import SnapshotPicture
from scheduling.reading.snapshot import take

_lock = threading.Lock()
_kept: SnapshotPicture | None = None


def picture(*, at_most: timedelta) -> SnapshotPicture:
    """Return a picture that is not older than `at_most`; a question while one is taken gets that one."""
    global _kept  # noqa: PLW0603 - one per process
    with _lock:
        now = timezone.now()
        if _kept is None or not timedelta() <= now - _kept.taken_at < at_most:
            _kept = take(now)
        return _kept


def forget() -> None:
    """Drop the picture that this process keeps."""
    global _kept  # noqa: PLW0603 - one per process
    with _lock:
        _kept = None
