"""Programs that are forked (`rig.processes`) are what started ones are: each test here runs both ways."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import django
import pytest

from chamber import __version__
from rig import fork_server, processes
from rig.processes import ROOT, Forking, Popen
from tests.waiting import until

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux forks")

WAYS = ["forked", "started"]
TELL = """
import json, os, pathlib, signal, sys, threading
def of(stream):
    return [stream.encoding, stream.errors, stream.line_buffering, stream.write_through, stream.isatty()]
status = dict(line.split(":\t", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines())
print(json.dumps({
    "words": sys.argv, "path": sys.path, "environment": dict(os.environ), "folder": os.getcwd(),
    "files": sorted(int(each) for each in os.listdir("/proc/self/fd"))[:-1],
    "leads": [os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid()],
    "signals": [status[name] for name in ("SigBlk", "SigIgn", "SigCgt")],
    "interrupt": signal.getsignal(signal.SIGINT).__name__,
    "streams": [of(sys.stdin), of(sys.stdout), of(sys.stderr)],
    "main": [__name__, sys.modules["__main__"].__name__, sorted(globals())],
    "threads": threading.active_count(), "mask": [os.umask(0o22), sys.dont_write_bytecode],
    "settings": sorted(name for name in sys.modules if name.startswith(("chamber.settings", "teams", "workloads"))),
}))
"""


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """How the programs of the test begin."""
    way: str = request.param
    if way == "forked" and not Forking.on:
        pytest.skip("CHAMBER_TEST_FORKS is 0")
    with nullcontext() if way == "forked" else Forking.off():
        yield way


def begun(code: str, **options: Any) -> "subprocess.Popen[str]":
    """Begin a program of this code, whose output is read."""
    return Popen[str](
        [sys.executable, "-c", code],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


@pytest.mark.parametrize("own_session", [True, False])
@pytest.mark.parametrize(
    "extra", [{}, {"PYTHONUNBUFFERED": "1"}, {"PYTHONDONTWRITEBYTECODE": "1", "TZ": "UTC"}]
)
def test_a_forked_program_meets_what_a_started_one_meets(own_session: bool, extra: dict[str, str]) -> None:
    kept = {name: value for name, value in os.environ.items() if name not in processes.HEEDED}
    environment = {**kept, "CHAMBER_DATA": "/nowhere", **extra}
    told = []
    for way in (nullcontext, Forking.off):
        with way():
            program = Popen[str](
                [sys.executable, "-c", TELL, "--a", "b c"],
                env=environment, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                start_new_session=own_session,
            )  # fmt: skip
        assert (program.forked_by is not None) is (way is nullcontext)
        told.append(json.loads(program.communicate()[0]))
    assert told[0] == told[1]


@pytest.mark.parametrize("words", [["-m", "chamber.cli", "--version"], ["manage.py", "version"]])
def test_modules_and_files_are_run_as_by_the_interpreter(words: list[str], way: str) -> None:
    done = processes.run([sys.executable, *words], cwd=ROOT)
    version = f"chamber {__version__}" if words[0] == "-m" else django.__version__
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, version, "")


@pytest.mark.parametrize(
    ("code", "status", "errors"),
    [
        ("pass", 0, ""),
        ("raise SystemExit(7)", 7, ""),
        ("raise SystemExit('It is wrong.')", 1, "It is wrong.\n"),
        ("raise KeyboardInterrupt", -signal.SIGINT, "KeyboardInterrupt\n"),
        ("1 / 0", 1, "ZeroDivisionError: division by zero\n"),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL, ""),
        ("import atexit, sys; atexit.register(sys.stderr.write, 'at the end')", 0, "at the end"),
        ("import threading; threading.Timer(0.1, print, ('later',)).start()", 0, ""),
    ],
)
def test_it_ends_alike(code: str, status: int, errors: str, way: str) -> None:
    done = processes.run([sys.executable, "-c", code], cwd=ROOT)
    assert done.returncode == status
    assert done.stderr.endswith(errors)
    assert bool(done.stderr) is bool(errors)
    assert done.stdout == ("later\n" if "later" in code else "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_signals_reach_it_and_its_whole_group(number: signal.Signals, way: str) -> None:
    code = "import os; os.fork(); os.write(1, b'here\\n'); import time; time.sleep(60)"
    with begun(code, start_new_session=True) as program:
        assert program.stdout is not None
        assert [program.stdout.readline() for _ in range(2)] == ["here\n"] * 2
        assert program.poll() is None
        os.killpg(program.pid, number)
        assert program.wait(30) == -number
        assert program.stdout.read() == "", "its child has ended too"


def test_what_is_written_to_it_is_read_and_waiting_has_an_end(way: str) -> None:
    done = processes.run([sys.executable, "-c", "print(input()[::-1])"], cwd=ROOT, text="abc\n")
    assert done.stdout == "cba\n"
    with pytest.raises(subprocess.TimeoutExpired):
        processes.run([sys.executable, "-c", "import time; time.sleep(60)"], cwd=ROOT, seconds=0.5)
    with pytest.raises(subprocess.CalledProcessError):
        processes.run([sys.executable, "-c", "raise SystemExit(3)"], cwd=ROOT, check=True)


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ([sys.executable, "-X", "dev", "-c", "pass"], {}),
        ([sys.executable, "-c", "pass"], {"cwd": "/"}),
        ([sys.executable, "-c", "pass"], {"env": {**os.environ, "PYTHONHASHSEED": "7"}}),
        ([sys.executable, "-c", "pass"], {"env": {**os.environ, "PROMETHEUS_MULTIPROC_DIR": "/nowhere"}}),
        ([sys.executable, "-c", "pass"], {"preexec_fn": os.getpid}),
        (["true"], {}),
    ],
)
def test_what_no_fork_could_be_is_started(words: list[str], options: dict[str, Any]) -> None:
    with Popen[bytes](words, **{"cwd": ROOT, **options}) as program:
        assert program.forked_by is None
    assert program.returncode == 0


def test_the_server_knows_no_settings_and_ends_with_whoever_began_it() -> None:
    code = (
        "from rig import fork_server, processes; import os; fork_server.load();"
        "from django.conf import settings; from django.apps import apps;"
        "processes.Forking.begin(); print(settings.configured, apps.ready, processes.server()._process.pid)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    configured, ready, pid = done.stdout.split()
    assert (configured, ready) == ("False", "False")
    until(lambda: not Path("/proc", pid).exists())


def test_variables_that_are_read_are_known() -> None:
    read: set[str] = set()
    with fork_server.recorded(read):
        os.environ.get("CHAMBER_ONE")
        os.getenv("CHAMBER_TWO", "")
        "CHAMBER_THREE" in os.environ  # noqa: B015 - what is tested
    os.environ.get("CHAMBER_FOUR")
    assert {"CHAMBER_ONE", "CHAMBER_TWO", "CHAMBER_THREE"} <= read
    assert "CHAMBER_FOUR" not in read


def test_the_processes_of_a_group_are_told_until_the_last_has_ended() -> None:
    script = "import os, time; os.fork() or time.sleep(600); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", script], start_new_session=True) as started:
        until(lambda: len(list(processes.of_group(started.pid))) == 2)
        os.kill(started.pid, signal.SIGKILL)
        started.wait()
        [child] = processes.of_group(started.pid)
        os.kill(child, signal.SIGKILL)
        until(lambda: not list(processes.of_group(started.pid)))
