"""Duties of the project itself, and what all duties have in common under Celery."""

from contextlib import AbstractContextManager

from celery import Task, shared_task
from celery.signals import task_postrun, task_prerun
from django.utils import timezone

from chamber import logs, marks, requirement, sign_ins
from chamber.metrics import totals
from chamber.oidc import sync
from chamber.scim import groups

_bindings: dict[str, AbstractContextManager[None]] = {}


@shared_task(bind=True)  # type: ignore[untyped-decorator]  # celery has no types
def heartbeat(self: Task) -> None:
    """Note that a beat sent this and that a worker of the duties' queue ran it."""
    # A task that was sent names who sent it and who runs it; called by the embedded timer, both are this process.
    marks.beaten(sent_by=self.request.origin, run_by=self.request.hostname, now=timezone.now())


@shared_task  # type: ignore[untyped-decorator]  # celery has no types
def add_up_cycles() -> None:
    """Add what new cycles did to the totals of /metrics."""
    totals.add_up()


@shared_task  # type: ignore[untyped-decorator]  # celery has no types
def forget_sign_ins() -> int:
    """Delete sessions that have ended, and tokens that have been of no use for 30 days; return how many."""
    return sign_ins.forget(timezone.now())


@shared_task  # type: ignore[untyped-decorator]  # celery has no types
def tell_who_is_held_back() -> int:
    """Have open pages of those looked at who can only set up a second factor from now on; return of how many."""
    return requirement.tell(timezone.now())


@shared_task  # type: ignore[untyped-decorator]  # celery has no types
def sync_providers() -> int:
    """Ask identity providers again what groups people are in, of those that are due, and give whom they keep here the
    roles that were given to their groups since; return of how many.
    """
    return sync.sync(timezone.now()) + groups.fill()


@task_prerun.connect  # type: ignore[untyped-decorator]  # celery has no types
def begin(task_id: str, **_: object) -> None:
    """Have what a duty logs, its failure included, carry its id as a request's records carry theirs."""
    _bindings[task_id] = logs.bind(request_id=task_id)
    _bindings[task_id].__enter__()


@task_postrun.connect  # type: ignore[untyped-decorator]  # celery has no types
def end(task_id: str, **_: object) -> None:
    """Take the id off again."""
    if (binding := _bindings.pop(task_id, None)) is not None:
        binding.__exit__(None, None, None)
