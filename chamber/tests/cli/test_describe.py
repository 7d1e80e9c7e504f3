"""`chamber describe`: the whole of a workload, for people and for programs."""

import json
from collections.abc import Callable
from datetime import timedelta

from django.utils import timezone

from agentlink.models import GpuUse
from chamber.models import User
from chamber.tests.cli.conftest import Run
from teams.models import Pool, Role, Team
from teams.tests.factories import member
from workloads.models import Attempt, AttemptNotes
from workloads.tests.factories import make_workload, start

Become = Callable[..., str]


def test_a_running_workload_with_its_attempts_use_and_events(
    run: Run, nlp: Team, ada: User, pool: Pool, become: Become
) -> None:
    attempt = start(make_workload(nlp, ada, slug="bert-1"), pool)
    GpuUse.objects.create(
        attempt=attempt,
        at=timezone.now(),
        gpus=1,
        busy_percent=63,
        memory_mib=2048,
        idle_milli=1000,
        idle_since=timezone.now() - timedelta(minutes=31),
    )
    become(ada)

    told = run("describe", "bert-1").stdout

    assert told.startswith("Name ")
    for words in ("\nGPU use\n", "63 %", "2.0 GiB", "1 GPU", "31 min", "\nAttempts\n", "Running"):
        assert words in told, words
    assert "\nWhy\n" not in told


def test_what_an_attempt_said_of_checkpoints_and_progress(
    run: Run, nlp: Team, ada: User, pool: Pool, become: Become
) -> None:
    attempt = start(make_workload(nlp, ada, slug="bert-1"), pool)
    now = timezone.now()
    Attempt.objects.filter(pk=attempt.pk).update(checkpointed_at=now - timedelta(minutes=12))
    links = {"wandb": "https://wandb.example/run"}
    AttemptNotes.objects.create(
        attempt=attempt, step=1200, checkpoints=3, progress_millionths=425_000, progress_at=now, links=links
    )
    become(ada)

    told = run("describe", "bert-1", "-o", "wide").stdout

    for words in ("42.5 %", "step 1200, 12 min ago", "https://wandb.example/run"):
        assert words in told, told


def test_how_an_attempt_ended_is_told_by_fields(
    run: Run, nlp: Team, ada: User, pool: Pool, become: Become
) -> None:
    attempt = start(make_workload(nlp, ada, slug="bert-1"), pool)
    attempt.end_reason, attempt.ended_at, attempt.phase = "preempted", timezone.now(), "over"
    attempt.end_detail = {
        "message": "Preempted for work of Vision.",
        "rule": "burst",
        "level": "Acme",
        "by": "x",
    }
    attempt.save()
    become(ada)

    told = run("describe", "bert-1", "-o", "wide").stdout

    assert "{" not in told
    for words in ("Preempted for work of Vision.", "burst", "Acme", "Over", "Preempted"):
        assert words in told, words


def test_a_waiting_workload_says_why(run: Run, nlp: Team, ada: User, pool: Pool, become: Become) -> None:
    make_workload(nlp, ada, slug="bert-1")
    become(ada)

    told = run("describe", "bert-1").stdout

    assert "\nWhy\nReason" in told
    assert "\nAttempts\n" not in told


def test_for_programs_it_is_one_object(run: Run, nlp: Team, ada: User, pool: Pool, become: Become) -> None:
    become(ada)
    run("submit", "--team", "nlp", "--image", "x", "--name", "bert")
    slug = run("list", "-o", "name").stdout.strip()

    found = json.loads(run("describe", slug, "-o", "json").stdout)

    assert sorted(found) == ["attempts", "events", "explain", "usage", "workload"]
    assert [event["message"] for event in found["events"]] == ["Submitted."]
    assert (found["workload"]["slug"], found["usage"], found["attempts"]) == (slug, None, [])
    assert json.loads(run("describe", slug, "-o", "json", "--events", "0").stdout)["events"] == []
    assert run("describe", slug, "-o", "name").stdout == f"{slug}\n"


def test_all_that_was_asked_for_is_told(run: Run, nlp: Team, ada: User, pool: Pool, become: Become) -> None:
    become(ada)
    run("submit", "--team", "nlp", "--image", "x", "--name", "first")
    first = run("list", "-o", "name").stdout.strip()
    flags = {
        "--partition": "p1",
        "--node-selector": "rack=r1",
        "--toleration": "spot:NoSchedule",
        "--topology-preferred": "zone",
        "--grace": "5m",
        "--max-retries": "2",
        "--env": "MODE=secret",
        "--label": "cost=42",
        "--annotation": "example.org/note=Ask Ada.",
        "--depends-on": first,
    }
    given = [word for pair in flags.items() for word in pair]
    made = run("submit", "--team", "nlp", "--image", "x", *given, "--fail-if-impossible").stdout.strip()

    told = dict(line.split("  ", 1) for line in run("describe", made).stdout.splitlines() if "  " in line)

    expected = {
        "Partition": "p1",
        "Node selector": "rack=r1",
        "Tolerations": "spot:NoSchedule",
        "Topology preferred": "zone",
        "Grace period": "5 min",
        "Retries": "2",
        "Variables": "MODE",
        "Labels": "cost=42",
        "Annotations": "example.org/note: Ask Ada.",
        "Starts after": first,
        "If impossible": "It fails",
    }
    assert {name: told[name].strip() for name in expected} == expected


def test_what_is_not_yours_is_not_found(run: Run, nlp: Team, vision: Team, ada: User, become: Become) -> None:
    make_workload(vision, member(vision, Role.RESEARCHER, "vera"), slug="secret-1")
    become(ada)

    result = run("describe", "secret-1")

    assert (result.exit_code, result.stdout) == (3, "")


def test_the_image_that_ran_is_that_of_the_last_attempt_that_pulled_one(
    run: Run, nlp: Team, ada: User, pool: Pool, become: Become
) -> None:
    attempt = start(make_workload(nlp, ada, slug="bert-1"), pool)
    become(ada)
    assert "Image that ran" not in run("describe", "bert-1").stdout
    Attempt.objects.filter(pk=attempt.pk).update(images=["registry.example.org/train@sha256:0f"])
    told = run("describe", "bert-1").stdout
    assert "Image that ran" in told
    assert "registry.example.org/train@sha256:0f" in told
