"""How simulated pods play their commands: as a shell runs them, programs as long as is usual for their class."""

import math
from uuid import UUID

import pytest

from agentlink.agent.backends.played import BAD_USAGE, CLASS_SECONDS, RUN_SECONDS, Play, play
from agentlink.protocol import DesiredAttempt


def assignment(
    *command: str, job_class: str = "", limit: int | None = None, number: int = 1
) -> DesiredAttempt:
    return DesiredAttempt(
        workload=UUID(int=number), slug="w", attempt=UUID(int=number), number=1, pods=(), let_go=True, image="i",
        command=command, grace_seconds=5, job_class=job_class, time_limit_seconds=limit,
    )  # fmt: skip


def script(text: str) -> Play:
    return play(assignment("sh", "-c", text))


@pytest.mark.parametrize(
    ("text", "seconds", "exit_code"),
    [
        ("exit 3", 0, 3),
        ("sleep 5", 5, 0),
        ("sleep 2; sleep 0.5", 2.5, 0),
        ("sleep 1m 2s", 62, 0),
        ("exec sleep 3", 3, 0),
        ("X=1 sleep 3; exit 256", 3, 0),
        ("false", 0, 1),
        ("false && sleep 5", 0, 1),
        ("false || sleep 5", 5, 0),
        ("true || sleep 5; sleep 1", 1, 0),
        ("true && exit 7 || sleep 5", 0, 7),
        ("sleep 1; exit; sleep 9", 1, 0),
        ("false; exit", 0, 1),
        ("cd /work\nsleep 2 # no; sleep 9\nexit 4", 2, 4),
        ("# sleep 9\nsleep 2", 2, 0),
        ("sleep soon", 0, 1),
        ("sleep", 0, 1),
        ("exit now", 0, BAD_USAGE),
        ("echo 'open; sleep 5", 0, BAD_USAGE),
        ("echo 'sleep 5; exit 3'", 0, 0),
        ("sleep infinity; exit 3", math.inf, 0),
        ("", 0, 0),
    ],
)
def test_a_script_is_played_as_a_shell_runs_it(text: str, seconds: float, exit_code: int) -> None:
    found = script(text)
    assert (found.seconds, found.exit_code, found.program) == (seconds, exit_code, False)


def test_lines_are_written_when_the_sleeps_before_them_are_over() -> None:
    assert script("echo one; sleep 2; echo 'two  three'; sleep 3").lines == [(0, "one"), (2, "two  three")]


@pytest.mark.parametrize(
    ("command", "seconds", "exit_code"),
    [
        (("sleep", "5"), 5, 0),
        (("false",), 0, 1),
        (("python", "train.py", "--seconds", "40"), 40, 0),
        (("bash", "-ec", "python train.py --seconds=7; exit 3"), 7, 3),
    ],
)
def test_words_are_played_like_scripts(command: tuple[str, ...], seconds: float, exit_code: int) -> None:
    found = play(assignment(*command))
    assert (found.seconds, found.exit_code) == (seconds, exit_code)


@pytest.mark.parametrize(
    "command",
    [
        ("python", "train.py"),
        ("sh", "-c", "for i in 1 2; do sleep 1; done"),
        ("sh", "-c", "yes | sleep 5"),
        ("sh", "train.sh"),
        (),
    ],
)
@pytest.mark.parametrize("job_class", [*CLASS_SECONDS, "", "of-tomorrow"])
def test_a_program_runs_as_long_as_is_usual_for_its_class(command: tuple[str, ...], job_class: str) -> None:
    low, high = CLASS_SECONDS.get(job_class, RUN_SECONDS)
    found = [play(assignment(*command, job_class=job_class, number=number)) for number in range(20)]
    assert all(low <= each.seconds <= high and each.program and each.exit_code == 0 for each in found)
    assert low == high or len({each.seconds for each in found}) == 20
    assert play(assignment(*command, job_class=job_class)) == play(assignment(*command, job_class=job_class))


def test_a_program_ends_within_its_time_limit_and_one_that_serves_does_not() -> None:
    assert play(assignment("train", job_class="training", limit=20)).seconds == 20
    assert play(assignment("serve", job_class="serving", limit=20)).seconds == math.inf
