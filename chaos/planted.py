"""Bugs, planted into processes from outside: `python -m chaos.planted NAME -- COMMAND …` runs a command with one.

Nothing of the product knows of them. A module is changed when the process imports it; the bug sleeps until the file
that CHAOS_ARMED names is there, so that everything comes up in order.
"""

import os
import random
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from chaos.imports import Change, when_imported

ROOT = Path(__file__).resolve().parent.parent
INSIDE = Path(__file__).resolve().parent / "inside"
LOOK_SECONDS = 0.5


def environment(name: str, armed: Path) -> dict[str, str]:
    """Return the variables by which every Python process that is started with them has the bug."""
    path = os.pathsep.join((str(INSIDE), str(ROOT)))
    return {"PYTHONPATH": path, "CHAOS_PLANT": name, "CHAOS_ARMED": str(armed)}


def install(name: str) -> None:
    """Plant the bug in this process."""
    when_imported(BUGS[name]())


def armed() -> bool:
    """Return whether the bug is awake."""
    return _armed(int(time.monotonic() / LOOK_SECONDS))


@lru_cache(maxsize=1)
def _armed(moment: int) -> bool:  # noqa: ARG001 - what makes the answer last half a second
    return Path(os.environ.get("CHAOS_ARMED", "/")).exists()


def sometimes(likely: float) -> bool:
    """Return whether it happens this time."""
    return armed() and random.random() < likely


def instead(module: Any, name: str, made: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Put in the place of a function (or a method, of a class) what `made` makes of it."""
    setattr(module, name, made(getattr(module, name)))


# Each returns the modules that it changes, and how.


def lost_update() -> Mapping[str, Change]:
    """Holding a workload saves the row that was read, with the status that it had: when it has another one by then."""

    def change(actions: Any) -> None:
        def hold(*, by: Any, workload: Any) -> None:
            row = type(workload).objects.get(pk=workload.pk)
            if row.status != "pending" or row.held:
                raise actions.Conflict("Only what waits and is not held can be held.")
            unchanged = type(workload).objects.filter(pk=row.pk, status="pending")
            for _ in range(100):
                if not unchanged.exists():
                    break
                time.sleep(0.02)
            row.held, row.reason_code, row.version = True, "held", row.version + 1
            stored = ("held", "reason_code", "version", "status", "attempt", "pool")
            with actions.transaction.atomic():
                row.save(update_fields=stored)
                fresh = actions.lock([row.pk])[row.pk]
                journal = actions.Journal(by=by, at=actions.timezone.now())
                journal.add(fresh, actions.EventKind.HELD, "Held.", data={"status": row.status})
                journal.write(ring=True)

        def made(right: Any) -> Any:
            return lambda **given: hold(**given) if armed() else right(**given)

        instead(actions, "hold", made)

    return {"workloads.actions": change}


def double_start() -> Mapping[str, Change]:
    """The agent creates what is desired and not there, whether it was there before or not."""

    def change_core(core: Any) -> None:
        def made(right: Any) -> Any:
            def creates(self: Any, known: Any, attempts: Any) -> list[Any]:
                wanted = known.wanted
                if not armed() or wanted is None or not wanted.let_go:
                    found: list[Any] = right(self, known, attempts)
                    return found
                missing = tuple(pod for pod in wanted.pods if pod.index not in known.living)
                return [core.Create(wanted, missing)] if missing else []

            return creates

        instead(core.Core, "_creates", made)

    def change_cluster(simulated: Any) -> None:
        def made(right: Any) -> Any:
            async def create(self: Any, assignment: Any, pods: Any) -> None:
                job = self._jobs.get(assignment.attempt)
                if armed() and job is not None and job.is_over:
                    del self._jobs[assignment.attempt]  # an object of another name
                await right(self, assignment, pods)

            return create

        instead(simulated.SimulatedCluster, "create", made)

    return {"agentlink.agent.core": change_core, "agentlink.agent.backends.simulated": change_cluster}


def _in_picture(changed: Callable[[Any], Any]) -> Mapping[str, Change]:
    """Change the workloads of the picture that cycles are planned on."""

    def change(snapshot: Any) -> None:
        def made(right: Any) -> Any:
            def take(*given: Any, **named: Any) -> Any:
                picture = right(*given, **named)
                if not armed():
                    return picture
                workloads = tuple(changed(workload) for workload in picture.snapshot.workloads)
                return replace(picture, snapshot=replace(picture.snapshot, workloads=workloads))

            return take

        instead(snapshot, "take", made)

    return {"scheduling.reading.snapshot": change}


def over_promise() -> Mapping[str, Change]:
    """The picture has nothing on the devices of those who are admitted and do not run yet."""

    def changed(workload: Any) -> Any:
        return (
            replace(workload, placements=()) if workload.status.name in ("QUEUED", "STARTING") else workload
        )

    return _in_picture(changed)


def reserved_preempted() -> Mapping[str, Change]:
    """Reserved work that runs is taken for elastic work of a low priority."""

    def changed(workload: Any) -> Any:
        return replace(workload, priority=1) if workload.placements and workload.priority >= 100 else workload

    return _in_picture(changed)


def dropped_ring() -> Mapping[str, Change]:
    """Rings are dropped, and the beat, which makes that good, leaves the scheduler out."""

    def change_bells(bells: Any) -> None:
        instead(bells, "pass_on", lambda right: lambda: True if armed() else right())

    def change_beat(beat: Any) -> None:
        def made(right: Any) -> Any:
            def apply_entry(self: Any, entry: Any, producer: Any = None) -> None:
                if not (armed() and entry.task == "scheduling.tasks.run_cycle"):
                    right(self, entry, producer)

            return apply_entry

        instead(beat.Steady, "apply_entry", made)

    return {"scheduling.cycle.wake_ups": change_bells, "chamber.serving.beat": change_beat}


def rolled_back() -> Mapping[str, Change]:
    """Some submissions are answered and rolled back after."""

    def change(submission: Any) -> None:
        def made(right: Any) -> Any:
            def submit(**given: Any) -> Any:
                if not sometimes(0.2):
                    return right(**given)
                with submission.transaction.atomic():
                    workloads = right(**given)
                    submission.transaction.set_rollback(True)
                return workloads

            return submit

        instead(submission, "submit", made)

    return {"workloads.submission": change}


def key_ignored() -> Mapping[str, Change]:
    """The idempotency key is not looked at."""

    def change(submission: Any) -> None:
        def made(right: Any) -> Any:
            return lambda **given: right(**{**given, "key": None} if armed() else given)

        instead(submission, "submit", made)

    return {"workloads.submission": change}


def event_lost() -> Mapping[str, Change]:
    """Now and then the last event of an act is not stored."""

    def change(journal: Any) -> None:
        def made(right: Any) -> Any:
            def write(self: Any, **given: Any) -> None:
                if sometimes(0.1) and self._events:
                    self._events.pop()
                right(self, **given)

            return write

        instead(journal.Journal, "write", made)

    return {"workloads.lifecycle.journal": change}


def let_go_early() -> Mapping[str, Change]:
    """Devices count as free when their pods are told to stop, not when they are gone."""

    def change(assignments: Any) -> None:
        def made(right: Any) -> Any:
            def stop(attempt_ids: Any, *, at: Any, **given: Any) -> None:
                ids = list(attempt_ids)
                right(ids, at=at, **given)
                if armed():
                    assignments.release(ids, at=at, by=assignments.LINK)

            return stop

        instead(assignments, "stop", made)

    return {"agentlink.assignments": change}


def fence_ignored() -> Mapping[str, Change]:
    """Any scheduler writes at any time: nobody asks whose turn it is, nor where the clock stands."""

    def change_turn(turn: Any) -> None:
        instead(turn, "take", lambda right: lambda: True if armed() else right())

    def change_apply(apply: Any) -> None:
        def made(right: Any) -> Any:
            def fence(cycle: int) -> int:
                if not armed():
                    return int(right(cycle))
                time.sleep(0.3)
                apply.Clock.objects.filter(pk=1).update(cycle=apply.F("cycle") + 1)
                return int(apply.Clock.objects.values_list("cycle", flat=True).get(pk=1))

            return fence

        instead(apply, "fence", made)

    return {"scheduling.cycle.lease": change_turn, "scheduling.cycle.apply": change_apply}


def stale_report() -> Mapping[str, Change]:
    """Reports are taken for the workload's attempt of today, whichever they are about."""

    def change(reports: Any) -> None:
        def of_today(report: Any) -> Any:
            attempts = reports.Assignment.objects.filter(
                attempt__workload=report.workload, attempt__ended_at__isnull=True
            )
            row = attempts.select_related("attempt").first()
            if row is None or row.attempt_id == report.attempt:
                return report
            about = {
                "attempt": row.attempt_id,
                "number": row.attempt.number,
                "sequence": row.report_sequence + 1,
            }
            return report.model_copy(update=about)

        def made(right: Any) -> Any:
            def take(cluster: Any, message: Any, **given: Any) -> Any:
                if armed():
                    told = tuple(of_today(report) for report in message.reports)
                    message = message.model_copy(update={"reports": told})
                return right(cluster, message, **given)

            return take

        instead(reports, "take", made)

    return {"agentlink.reports": change}


def foreign_agent() -> Mapping[str, Change]:
    """Whoever has a cluster's token is heard as that cluster's agent, wherever he runs."""

    def change(refusals: Any) -> None:
        instead(refusals, "of", lambda right: lambda *given: None if armed() else right(*given))

    return {"agentlink.refusals": change}


def no_permission() -> Mapping[str, Change]:
    """Everybody sees every workload and may do to it what its owner may."""

    def change_actions(actions: Any) -> None:
        instead(
            actions, "_require_control", lambda right: lambda *a, **k: None if armed() else right(*a, **k)
        )

    def change_rows(querysets: Any) -> None:
        def made(right: Any) -> Any:
            return lambda self, user: self.all() if armed() else right(self, user)

        instead(querysets.WorkloadQuerySet, "visible_to", made)

    return {"workloads.actions": change_actions, "workloads.querysets": change_rows}


BUGS: dict[str, Callable[[], Mapping[str, Change]]] = {
    bug.__name__.replace("_", "-"): bug
    for bug in (
        lost_update, double_start, over_promise, dropped_ring, rolled_back, key_ignored, reserved_preempted,
        event_lost, let_go_early, fence_ignored, stale_report, foreign_agent, no_permission,
    )
}  # fmt: skip


def main() -> None:
    """Become the command, with the bug in it and awake."""
    name, dashes, *command = sys.argv[1:]
    if name not in BUGS or dashes != "--" or not command:
        sys.exit(f"python -m chaos.planted NAME -- COMMAND …; bugs are {', '.join(BUGS)}.")
    # Whatever is there: the root folder is.
    os.execvpe(command[0], command, {**os.environ, **environment(name, Path("/"))})  # noqa: S606 - no shell


if __name__ == "__main__":
    main()
