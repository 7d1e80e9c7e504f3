"""What a played pod writes: made when it is asked for, always the same for the same pod and time.

A command writes what it echoes, between its `sleep`s. A program that echoes nothing trains a model, and writes a line
every second or two; where its output is read for notes, some of them are.
"""

import math
from bisect import bisect_right
from functools import cached_property

from agentlink.agent.backends import played
from agentlink.agent.backends.jobs import Job
from agentlink.protocol import AssignedPod
from agentlink.protocol.profiles import GPU_MILLI

_EVERY_SECONDS = (0.5, 2.0)
_STEPS_A_LINE = 20
_PROGRESS_EVERY = 5
_CHECKPOINT_EVERY = 12


class Script:
    """One pod's lines by number, and how many there are after so many seconds of running."""

    def __init__(self, job: Job, pod: int) -> None:
        self._job, self._pod = job, pod
        self._every = played.draw(job.assignment.workload, "line", _EVERY_SECONDS)
        self._play = played.play(job.assignment)
        self._echoes = [line for _, line in self._play.lines]
        self._at = [second for second, _ in self._play.lines]
        self._trains = self._play.program and not self._echoes

    def count(self, now: float) -> int:
        """Return how many lines it has written by `now`, a time of the cluster's own clock."""
        job = self._job
        if job.running_at is None:
            return 0
        until = min(moment for moment in (now, job.ended_at, job.stopping_at) if moment is not None)
        return self._written(until - job.running_at) + len(self._last_words)

    def line(self, number: int) -> str:
        """Return a line by its number from 0, without its newline."""
        words = self._last_words
        if words and number >= self._before_last:
            return words[number - self._before_last]
        return self._training(number) if self._trains else self._echoes[number]

    @cached_property
    def _before_last(self) -> int:
        return self.count(math.inf) - len(self._last_words)

    @cached_property
    def _last_words(self) -> list[str]:
        job = self._job
        if not self._trains:
            return []
        if job.exit_code:
            return [f"RuntimeError: it was told to end with {job.exit_code}"]
        if job.stopping_at is not None and not job.is_over:
            words = ["SIGTERM received: a checkpoint is written"]
            if job.assignment.read_notes:
                step = self._step(self._written(job.stopping_at - (job.running_at or job.stopping_at)) - 1)
                words.append(f"::chamber checkpoint step={step}::")
            return words
        return []

    def second(self, number: int) -> float:
        """Return after how many seconds of running a line was written; of its last words, when it ended."""
        job = self._job
        if self._last_words and number >= self._before_last:
            ended_at = job.stopping_at or job.ended_at or 0.0
            return max(0.0, ended_at - (job.running_at or ended_at))
        if not self._trains:
            return self._at[number] if self._at else 0.0
        return max(0, number - len(self._head) + 1) * self._every

    def _written(self, seconds: float) -> int:
        if not self._trains:
            return bisect_right(self._at, seconds)
        return len(self._head) + int(max(0.0, seconds) / self._every)

    @cached_property
    def _head(self) -> list[str]:
        job, pod = self._job, self._job.pods.get(self._pod)
        where = f" on {pod.node}, {_devices(pod)}" if pod is not None else ""
        return [f"+ {' '.join(job.assignment.command)}", f"rank {self._pod} of {len(job.states)}{where}"]

    def _training(self, number: int) -> str:
        if number < len(self._head):
            return self._head[number]
        step = self._step(number)
        if self._job.assignment.read_notes and (note := self._note(number, step)):
            return note
        noise = played.draw(self._job.assignment.workload, f"{self._pod} {step}", (-0.05, 0.05))
        loss = 1.2 + 9.6 / math.sqrt(step) + noise
        rate = played.draw(self._job.assignment.workload, f"rate {step}", (780.0, 860.0))
        return f"step {step:>6}  loss {loss:.4f}  {rate:.0f} samples/s"

    def _step(self, number: int) -> int:
        return max(0, number - len(self._head) + 1) * _STEPS_A_LINE

    def _note(self, number: int, step: int) -> str:
        """Return a note that stands in the place of a line, now and then."""
        if number % _CHECKPOINT_EVERY == _CHECKPOINT_EVERY - 1:
            return f"::chamber checkpoint step={step}::"
        if number % _PROGRESS_EVERY == _PROGRESS_EVERY - 1 and self._play.seconds < math.inf:
            return f"::chamber progress {min(1.0, self.second(number) / self._play.seconds):.4f}::"
        return ""


def _devices(pod: AssignedPod) -> str:
    """Return what a pod has: whole GPUs by their number, else the part of one."""
    milli = sum(share.share_milli for share in pod.devices)
    return (
        f"{len(pod.devices)} x GPU"
        if milli == GPU_MILLI * len(pod.devices)
        else f"{milli / GPU_MILLI:g} x GPU"
    )
