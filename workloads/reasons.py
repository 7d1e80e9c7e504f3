"""How a workload ended, as data: a code, a sentence, and what to do next."""

from dataclasses import dataclass

BY_HAND = "Nothing was wrong with the workload: requeue it, and ask who works in its namespace by hand."
NEXT_STEPS = {
    "time-limit": "Submit it with a longer time limit, or have it write checkpoints and continue from them.",
    "out-of-memory": "Ask for more memory per pod, or make its batches smaller.",
    "image-not-pulled": "Check the image's name and tag, and that the cluster may pull it.",
    "node-lost": "Nothing was wrong with the workload: requeue it, or allow retries.",
    "drained": "Nothing was wrong with the workload: requeue it, or allow retries. Its node is being emptied.",
    "evicted": "Requeue it; ask for the CPU and memory that it really uses.",
    "displaced": "Requeue it; have the operator keep pods of higher priority classes off Chamber's nodes.",
    "unschedulable": "Requeue it; if it happens again, tell the operator of the cluster.",
    "container-not-made": "Mend what the message names, then requeue it.",
    "container-not-started": "Check the command: its image has no such program, or does not let it run.",
    **dict.fromkeys(("pods-vanished", "pod-deleted", "job-deleted", "job-suspended", "misplaced"), BY_HAND),
    "exit-code": "Read the end of its logs, mend the cause, and requeue it.",
    "dependency-failed": "Mend and requeue what it depends on, then requeue this one.",
    "preempted": "Requeue it. With on_preemption: requeue it returns to the queue by itself.",
    "too-many-requeues": "Requeue it, or ask for GPUs inside your team's guarantee (priority 100 and above).",
    "cancelled": "Requeue it to run it after all.",
}
"""What to do about each way to end; codes that are not here get the advice for an exit code."""


@dataclass(frozen=True, slots=True)
class EndReason:
    """Why a workload ended. `by` names who caused it, where somebody did."""

    code: str
    message: str
    kind: str = "failed"
    next_step: str = ""
    by: str = ""
    rule: str = ""
    level: str = ""

    def as_json(self) -> dict[str, str]:
        """Return what is stored in `Workload.reason`: all that is known, and always a next step."""
        step = self.next_step or NEXT_STEPS.get(self.code, NEXT_STEPS["exit-code"])
        known = {"kind": self.kind, "next_step": step, "by": self.by, "rule": self.rule, "level": self.level}
        return {
            "code": self.code,
            "message": self.message,
            **{key: text for key, text in known.items() if text},
        }


def of_failure(exit_code: int | None, code: str, message: str) -> EndReason:
    """Return the reason of a failed attempt, from what the cluster reported."""
    if not code:
        code = "exit-code"
    if not message:
        message = (
            f"It exited with code {exit_code}."
            if exit_code is not None
            else "It failed; the cluster does not say why."
        )
    return EndReason(code, message)
