"""A scheduler in a process of its own, which stops or dies at a step of its cycle.

    python -m scheduling.tests.process STEP SIGNAL

STEP is `decided` (the plan is made, nothing written), `fenced` (the transaction has begun), `started` (its workloads
have started, nothing is committed) or `written` (its decisions are committed, nobody is told); SIGNAL is what it sends
itself there: STOP or KILL. Prints what `run_cycle` gave.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import django

STEPS = {
    "decided": ("scheduling.cycle.cycle", "decide"),
    "fenced": ("scheduling.cycle.apply", "fence"),
    "started": ("agentlink.assignments", "assign_many"),
    "written": ("scheduling.cycle.cycle", "apply"),
}


def struck_after(step: Callable[..., Any], sign: signal.Signals) -> Callable[..., Any]:
    """Return the step that sends this process a signal when it is done for the first time."""
    strikes = [sign]

    def struck(*args: Any, **kwargs: Any) -> Any:
        result = step(*args, **kwargs)
        if strikes:
            os.kill(os.getpid(), strikes.pop())
        return result

    return struck


def main(step: str, sign: str) -> None:
    """Run cycles as the worker does."""
    django.setup()
    from scheduling.cycle import cycle

    module, name = STEPS[step]
    holder = sys.modules[module]
    setattr(holder, name, struck_after(getattr(holder, name), signal.Signals[f"SIG{sign}"]))
    print(cycle.run_cycle())  # noqa: T201 - what it is run for


if __name__ == "__main__":
    main(*sys.argv[1:])
