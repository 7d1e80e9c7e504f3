"""Viewers of many kinds with their sessions, and changes at a steady pace; for `bench.live`, with its environment.

    python -m bench.changes prepare 1000 20    # a session of each viewer, as JSON
    python -m bench.changes make 50 30         # 50 changes a second for 30 s, a line for each: moment and workload

A change is a whole one: somebody holds or releases a waiting workload, with its event, ring and announcements.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from typing import Any

NAME = "bench-live"
WORKLOADS_OF_A_TEAM = 50


def main(arguments: list[str]) -> None:
    """Do what the first word says."""
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chamber.settings")
    django.setup()
    what, first, second = arguments
    if what == "prepare":
        print(json.dumps(prepare(int(first), int(second))))
    else:
        make(float(first), float(second))


def prepare(viewers: int, kinds: int) -> dict[str, Any]:
    """Make a team for each kind, workloads that wait in it, and viewers whose roles differ by kind alone."""
    from teams.models import Pool, Role, Team

    root = Team.objects.get(depth=0)
    prefix = f"{NAME}-{time.time_ns()}"
    teams = []
    for number in range(kinds):
        team = Team(slug=f"{prefix}-{number}", name=f"Bench {number}", parent=root, depth=1)
        team.path = Team.path_under(root, team.pk)
        teams.append(team)
    Team.objects.bulk_create(teams)
    users = _users(prefix, viewers, kinds)
    roles = [Role.VIEWER, Role.RESEARCHER, Role.LEAD, Role.ADMIN]
    bindings = [
        # The last kind sees everything, as operators do; the others a team each, as this or that.
        (
            user,
            root if number % kinds == kinds - 1 else teams[number % kinds],
            roles[number % kinds % len(roles)],
        )
        for number, user in enumerate(users)
    ]
    _bind(bindings)
    workloads = _workloads(prefix, teams, users)
    return {
        "sessions": [{"key": key, "kind": number % kinds} for number, key in enumerate(_sessions(users))],
        "workloads": workloads,
        "pools": list(Pool.objects.values_list("slug", flat=True)),
    }


def _users(prefix: str, viewers: int, kinds: int) -> list[Any]:
    from chamber.models import User

    # A password that nobody can type: sessions are made here.
    users = [User(username=f"{prefix}-{number % kinds}-{number}", password="!") for number in range(viewers)]  # noqa: S106 - fits none
    return User.objects.bulk_create(users)


def _bind(bindings: list[Any]) -> None:
    from teams.models import Binding

    Binding.objects.bulk_create(Binding(user=user, team=team, role=role) for user, team, role in bindings)


def _sessions(users: list[Any]) -> list[str]:
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
    from django.contrib.sessions.backends.db import SessionStore
    from django.contrib.sessions.models import Session

    rows: list[Any] = []
    for user in users:
        store = SessionStore()
        store[SESSION_KEY] = str(user.pk)
        store[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
        store[HASH_SESSION_KEY] = user.get_session_auth_hash()
        store._session_key = store._get_new_session_key()  # type: ignore[attr-defined]
        rows.append(store.create_model_instance(dict(store.items())))
    Session.objects.bulk_create(rows)
    return [str(row.pk) for row in rows]


def _workloads(prefix: str, teams: list[Any], users: list[Any]) -> list[dict[str, Any]]:
    from django.utils import timezone

    from workloads.models import Event, EventKind, Workload

    now = timezone.now()
    rows = [
        Workload(
            slug=f"{prefix[-8:]}-{number}-{index}",
            name=f"waits-{index}",
            owner=users[number % len(users)],
            team=team,
            gpu_milli=1000,
            image="bench/pod:1",
            submitted_at=now,
            status_since=now,
            last_event=1,
        )
        for number, team in enumerate(teams)
        for index in range(WORKLOADS_OF_A_TEAM)
    ]
    Workload.objects.bulk_create(rows)
    Event.objects.bulk_create(
        Event(
            workload=row,
            sequence=1,
            at=now,
            kind=EventKind.SUBMITTED,
            actor=NAME,
            via="api",
            message="Submitted.",
        )
        for row in rows
    )
    kinds = {team.pk: number for number, team in enumerate(teams)}
    return [{"id": str(row.pk), "slug": row.slug, "kind": kinds[row.team_id]} for row in rows]


def make(rate: float, seconds: float) -> None:
    """Hold or release one workload after another, and say when each change was committed."""
    from teams.actors import Actor
    from workloads import actions
    from workloads.models import Status, Workload

    rows = list(
        Workload.objects.filter(name__startswith="waits-", status=Status.PENDING).select_related(
            "team", "owner"
        )
    )
    newest = max(row.submitted_at for row in rows)
    rows = [row for row in rows if row.submitted_at == newest]
    chance, began = random.Random(1), time.monotonic()
    for number in range(int(rate * seconds)):
        ahead = began + number / rate - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)
        row = chance.choice(rows)
        (actions.release if row.held else actions.hold)(by=Actor.system(NAME), workload=row)
        row.held = not row.held
        print(json.dumps([time.time(), str(row.pk)]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
