"""`chamber classes` and `chamber tiers`: shown, made, changed, narrowed, retired, deleted."""

import json
from collections.abc import Callable

import pytest

from chamber.models import User
from chamber.tests.cli.conftest import Run
from teams.models import ClassNarrowing, JobClass, PriorityTier, Role, Team
from teams.tests.factories import member


@pytest.fixture
def olga(run: Run, org: Team, become: Callable[..., str]) -> User:
    user = member(org, Role.ORG_ADMIN, "olga")
    become(user)
    return user


@pytest.mark.usefixtures("olga")
def test_a_tier_and_a_class_are_made_changed_retired_and_deleted(run: Run) -> None:
    made = run(
        "tiers", "set", "urgent", "--priority", "90", "--least-role", "lead", "--priority-class", "gold"
    )
    assert made.exit_code == 0, made.stderr
    assert run("classes", "set", "sweep", "--tier", "urgent", "--time-limit", "2h").exit_code == 0
    changed = run("classes", "set", "sweep", "--time-limit", "none", "--max-retries", "2", "-o", "json")
    row = json.loads(changed.stdout)[0]
    assert (row["time_limit_seconds"], row["max_retries"], row["priority"]) == (None, 2, 90)
    assert "urgent" in run("tiers", "list").stdout
    assert "sweep" in run("classes", "list").stdout
    assert run("classes", "retire", "sweep").stdout == "The job class sweep is retired.\n"
    assert JobClass.objects.get(slug="sweep").is_retired
    assert run("classes", "restore", "sweep").stdout == "The job class sweep is taken again.\n"
    kept = run("tiers", "retire", "urgent")
    assert (kept.exit_code, "is the tier of the job class Sweep" in kept.stderr) == (5, True)
    assert run("classes", "delete", "sweep").stdout == "The job class sweep is deleted.\n"
    assert run("tiers", "delete", "urgent").stdout == "The tier urgent is deleted.\n"
    assert not PriorityTier.objects.filter(slug="urgent").exists()


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (
            ("classes", "set", "training", "--max-retries", "101"),
            6,
            "max_retries is 101; at most 100 is allowed.",
        ),
        (("classes", "set", "training", "--time-limit", "soon"), 2, "'soon' is no duration"),
        (("classes", "set", "training", "--sharing", "some"), 2, "some"),
        (("classes", "set", "sweep"), 6, "tier is missing"),
        (("classes", "set", "sweep", "--tier", "hgih"), 6, "Did you mean 'high'?"),
        (("classes", "retire", "nix"), 3, "There is no job class 'nix'"),
        (("tiers", "set", "urgent", "--priority", "50"), 6, "Normal has the priority 50 already."),
        (("classes", "narrow", "training", "--team", "nlp"), 2, "Give what is to be stricter, or --clear."),
        (
            ("classes", "narrow", "training", "--team", "nlp", "--time-limit", "none"),
            2,
            "only make it shorter",
        ),
        (
            ("classes", "narrow", "nix", "--team", "nlp", "--max-retries", "0"),
            3,
            "There is no job class 'nix'",
        ),
    ],
)
@pytest.mark.usefixtures("olga", "nlp")
def test_what_cannot_be_is_a_sentence(run: Run, words: tuple[str, ...], code: int, told: str) -> None:
    result = run(*words)
    assert (result.exit_code, told in result.stderr) == (code, True), result.stderr


def test_a_lead_narrows_flag_by_flag_and_takes_it_back(
    run: Run, nlp: Team, become: Callable[..., str]
) -> None:
    become(member(nlp, Role.LEAD, "lea"))
    words = ("classes", "narrow", "training", "--team", "nlp")
    assert run(*words, "--time-limit", "2h").exit_code == 0
    assert run(*words, "--max-retries", "0").exit_code == 0
    own = ClassNarrowing.objects.get()
    assert (own.time_limit_seconds, own.max_retries) == (7200, 0)
    wider = run(*words, "--tier", "high")
    assert (wider.exit_code, "High (75) is higher than Normal (50)" in wider.stderr) == (6, True)
    rows = json.loads(run("classes", "list", "--team", "nlp", "-o", "json").stdout)
    assert {row["slug"]: row["time_limit_seconds"] for row in rows}["training"] == 7200
    assert run(*words, "--clear").exit_code == 0
    assert not ClassNarrowing.objects.exists()
    refused = run("tiers", "set", "high", "--priority", "80")
    assert (refused.exit_code, "organisation admins" in refused.stderr) == (4, True)
