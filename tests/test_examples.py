"""The examples do what `docs/checkpoints.md` tells workloads to: run as pods run them, without their frameworks."""

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import pytest
import yaml

from chamber.notes import BadNote, Note, NoteKind, read_line
from workloads.requests import SubmissionRequest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "checkpoints"
LONG = 1_000_000
PROGRAMS = {
    "sh": ["sh", str(FOLDER / "train.sh")],
    "pytorch": [sys.executable, str(FOLDER / "train_pytorch.py")],
    "jax": [sys.executable, str(FOLDER / "train_jax.py")],
}


def begin(
    name: str,
    folder: Path,
    *,
    steps: int = LONG,
    every: int = 4,
    told: Mapping[str, str] = MappingProxyType({}),
) -> "subprocess.Popen[str]":
    given = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "tests" / "stand_ins"),
        "CHECKPOINT_DIR": str(folder / "saved"),
        "NOTICE": str(folder / "notice"),
        "STEPS": str(steps),
        "EVERY": str(every),
        "STEP_SECONDS": "0.01",
        **told,
    }
    options = [] if name == "sh" else ["--steps", str(steps), "--every", str(every)]
    return subprocess.Popen([*PROGRAMS[name], *options], env=given, stdout=subprocess.PIPE, text=True)


def notes_in(lines: list[str]) -> list[Note]:
    found = [read for line in lines if (read := read_line(line)) is not None]
    assert not [each for each in found if isinstance(each, BadNote)]
    return [each for each in found if isinstance(each, Note)]


def steps_in(lines: list[str]) -> list[int]:
    return [note.step or 0 for note in notes_in(lines) if note.kind is NoteKind.CHECKPOINT]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_script_that_is_stopped_saves_says_so_and_goes_on_from_there(name: str, tmp_path: Path) -> None:
    with begin(name, tmp_path) as first:
        assert first.stdout is not None
        lines = [first.stdout.readline() for _ in range(4)]
        first.send_signal(signal.SIGTERM)
        lines += first.stdout.readlines()
        assert first.wait(30) == 143
    saved = steps_in(lines)
    assert saved == sorted(set(saved))
    assert all(note.attempt in (None, 1) for note in notes_in(lines))
    last = saved[-1]

    told = {"CHAMBER_ATTEMPT": "2", "CHAMBER_RESUMED_FROM": str(last)}
    with begin(name, tmp_path, steps=last + 6, told=told) as second:
        assert second.stdout is not None
        lines = second.stdout.readlines()
        assert second.wait(60) == 0
    assert f"Going on from step {last}; Chamber knows of step {last}." in lines[0]
    again = steps_in(lines)
    assert again[0] > last
    assert again[-1] == last + 6
    assert notes_in(lines)[-1].millionths == 1_000_000
    assert {note.attempt for note in notes_in(lines) if note.kind is NoteKind.CHECKPOINT} == {2}
    if name == "pytorch":
        state = pickle.loads((tmp_path / "saved" / "latest.pt").read_bytes())  # noqa: S301 - its own
        assert state["model"] == {"weight": last + 6}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_notice_has_it_save_once_and_train_on(name: str, tmp_path: Path) -> None:
    with begin(name, tmp_path, every=LONG) as process:
        assert process.stdout is not None
        time.sleep(0.5)
        (tmp_path / "notice").write_text('{"why": "Its GPUs were reclaimed."}')
        while "::chamber checkpoint" not in process.stdout.readline():
            assert process.poll() is None
        time.sleep(0.2)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert (
            len(steps_in(process.stdout.readlines())) == 1
        )  # that of the signal: of the notice there is one
        assert process.wait(30) == 143


@pytest.mark.parametrize("name", PROGRAMS)
def test_of_a_gang_the_first_process_alone_speaks(name: str, tmp_path: Path) -> None:
    with begin(name, tmp_path, steps=8, told={"RANK": "1"}) as process:
        assert process.stdout is not None
        assert notes_in(process.stdout.readlines()) == []
        assert process.wait(60) == 0


class _Door(BaseHTTPRequestHandler):
    """Takes what pods say."""

    heard: ClassVar[list[tuple[str, str, Any]]] = []
    status: ClassVar[int] = 200

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.heard.append((self.path, self.headers["Authorization"], body))
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def door() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Door)
    _Door.heard, _Door.status = [], 200
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/api/v1/attempts/x/notes/"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("status", [200, 503])
def test_with_an_address_and_a_token_it_calls_and_a_refusal_stops_nothing(
    door: str, status: int, tmp_path: Path
) -> None:
    _Door.status = status
    told = {"CHAMBER_NOTES_URL": door, "CHAMBER_NOTES_TOKEN": "cht_x"}
    with begin("jax", tmp_path, steps=8, told=told) as process:
        assert process.stdout is not None
        lines = process.stdout.readlines()
        assert process.wait(60) == 0
    assert notes_in(lines) == []
    assert [(path, token, body) for path, token, body in _Door.heard] == [
        (
            "/api/v1/attempts/x/notes/",
            "Bearer cht_x",
            {"checkpoint": {"step": step, "attempt": 1}, "progress": step / 8},
        )
        for step in (4, 8)
    ]
    assert ("was not told" in "".join(lines)) is (status == 503)
    assert "cht_x" not in "".join(lines)


def test_the_manifest_is_one_that_is_taken() -> None:
    request = SubmissionRequest.parse(yaml.safe_load((FOLDER / "workload.yaml").read_text()))
    assert request.read_notes
    assert request.grace_seconds >= 120  # so that it gets a notice
