"""How far the clock has come, as a bar on the terminal."""

from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

if TYPE_CHECKING:
    import rich.progress

STEPS = 1000
"""The bar is moved at most that often: drawing costs more than many a cycle."""


class ProgressBar:
    """A bar on `to` while its block runs; nothing, where that is no terminal."""

    def __init__(self, to: TextIO, start: int, window_ms: int) -> None:
        self._to = to
        self._start = start
        self._window_ms = max(1, window_ms)
        self._shown = 0
        self._bar: rich.progress.Progress | None = None

    def __enter__(self) -> Self:
        if self._to.isatty():
            from rich.console import Console
            from rich.progress import Progress as Bar

            self._bar = Bar(console=Console(file=self._to), transient=True)
            self._bar.add_task("Simulating", total=STEPS)
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def tell(self, at: int) -> None:
        """Show how far the clock has come."""
        steps = (at - self._start) * STEPS // self._window_ms
        if steps > self._shown and self._bar is not None:
            self._shown = steps
            self._bar.update(self._bar.task_ids[0], completed=steps)
