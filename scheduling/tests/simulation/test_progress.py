"""The bar: on a terminal only, and not drawn more often than it moves."""

import io

from scheduling.simulation.progress import ProgressBar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(to: io.StringIO) -> str:
    with ProgressBar(to, start=1000, window_ms=4000) as progress:
        for at in range(1000, 5001, 10):
            progress.tell(at)
    return to.getvalue()


def test_a_terminal_gets_a_bar_that_reaches_the_end() -> None:
    written = shown(Terminal())
    assert "Simulating" in written
    assert "100%" in written


def test_a_file_gets_nothing() -> None:
    assert shown(io.StringIO()) == ""


def test_a_window_of_nothing_is_no_failure() -> None:
    written = Terminal()
    with ProgressBar(written, start=5, window_ms=0) as progress:
        progress.tell(5)
    assert "Simulating" in written.getvalue()
