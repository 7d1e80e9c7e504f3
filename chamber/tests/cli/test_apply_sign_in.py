"""`chamber apply` and `chamber diff` of how people sign in."""

import json

import pytest
from pytest_django.fixtures import Settings

from chamber.models import User
from chamber.oidc.providers import Provider
from chamber.tests.cli.conftest import Run
from chamber.tests.cli.test_apply import Become
from teams.models import AuditEvent, Binding, Role, SignInPolicy, Team
from teams.tests.factories import member

REQUIRED = "sign_in: {second_factor: {required: true, grace_days: 30}}"


@pytest.fixture
def olga(run: Run, org: Team, become: Become) -> User:
    user = member(org, Role.ORG_ADMIN, "olga")
    become(user)
    return user


def test_a_required_factor_is_made_true_and_then_nothing_differs(run: Run, olga: User) -> None:
    shown = run("diff", "-f", "-", "-o", "json", stdin=REQUIRED)
    assert not SignInPolicy.objects.exists()
    applied = run("apply", "-f", "-", "-o", "json", stdin=REQUIRED)
    assert (shown.exit_code, applied.exit_code) == (0, 0), applied.stderr
    assert shown.stdout == applied.stdout
    assert [(row["name"], row["field"], row["after"]) for row in json.loads(shown.stdout)] == [
        ("second factor", "required", True),
        ("second factor", "grace_days", 30),
    ]
    assert SignInPolicy.objects.get().grace_days == 30
    assert AuditEvent.objects.filter(action="organisation.sign-in-changed").count() == 1
    assert run("diff", "-f", "-", "--check", stdin=REQUIRED).exit_code == 0
    again = run("apply", "-f", "-", stdin="sign_in: {second_factor: {grace_days: 40}}")
    assert again.exit_code == 0
    policy = SignInPolicy.objects.get()
    assert (policy.grace_days, policy.required_since is not None) == (40, True), "what is not named stays"


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("sign_in: [1]", 2, "sign_in must be a mapping"),
        ("sign_in: {factor: 1}", 2, "there is no 'factor' here; known are second_factor, groups"),
        ("sign_in: {second_factor: true}", 2, "second_factor must be a mapping with required and grace_days"),
        ("sign_in: {second_factor: {days: 3}}", 2, "there is no 'days' here"),
        ("sign_in: {second_factor: {required: maybe}}", 6, "sign_in.second_factor.required is 'maybe'"),
        (
            "sign_in: {second_factor: {required: true, grace_days: 91}}",
            6,
            "91 days: people may be given 0 to 90",
        ),
    ],
)
def test_what_cannot_be_is_a_sentence(run: Run, olga: User, text: str, code: int, words: str) -> None:
    for command in ("diff", "apply"):
        result = run(command, "-f", "-", stdin=text)
        assert result.exit_code == code, result.stderr
        assert words in result.stderr
    assert not SignInPolicy.objects.exists()


def test_an_auditor_sees_what_would_change_and_others_nothing(
    run: Run, org: Team, ada: User, become: Become
) -> None:
    become(member(org, Role.AUDITOR, "audrey"))
    shown = run("diff", "-f", "-", stdin=REQUIRED)
    assert shown.exit_code == 0
    assert "How people sign in is changed by organisation admins." in shown.stderr
    assert run("apply", "-f", "-", stdin=REQUIRED).exit_code == 4
    become(ada)
    refused = run("diff", "-f", "-", stdin=REQUIRED)
    assert refused.exit_code == 4
    assert "organisation admins' and auditors' to see" in refused.stderr


GROUPS = """
sign_in:
  groups:
    acme:
      gpu-users: {nlp: researcher}
      /org/leads: {nlp: lead, acme: viewer}
"""


@pytest.fixture
def acme(settings: Settings) -> None:
    given = {"id": "acme", "name": "Acme", "issuer": "https://id.acme.example", "client_id": "chamber"}
    settings.IDENTITY_PROVIDERS = (Provider.model_validate(given),)


def given() -> set[tuple[str, str, str]]:
    rows = Binding.objects.exclude(group=None).select_related("team", "group")
    return {(row.group.name, row.team.slug, row.role) for row in rows if row.group}


@pytest.mark.usefixtures("acme")
def test_roles_by_groups_are_made_true_and_taken_away_by_null(run: Run, olga: User, nlp: Team) -> None:
    shown = run("diff", "-f", "-", "-o", "json", stdin=GROUPS)
    assert given() == set()
    applied = run("apply", "-f", "-", "-o", "json", stdin=GROUPS)
    assert (shown.exit_code, applied.exit_code) == (0, 0), applied.stderr
    assert shown.stdout == applied.stdout
    assert given() == {
        ("acme:gpu-users", "nlp", "researcher"),
        ("acme:/org/leads", "nlp", "lead"),
        ("acme:/org/leads", "acme", "viewer"),
    }
    assert run("diff", "-f", "-", "--check", stdin=GROUPS).exit_code == 0
    less = "sign_in: {groups: {acme: {/org/leads: {nlp: null, acme: auditor}}}}"
    assert run("apply", "-f", "-", stdin=less).exit_code == 0
    assert given() == {("acme:gpu-users", "nlp", "researcher"), ("acme:/org/leads", "acme", "auditor")}


@pytest.mark.usefixtures("acme", "olga", "nlp")
@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("[acme]", 2, "groups must be a mapping from providers"),
        ("{acme: [gpu]}", 2, "groups must be a mapping from providers"),
        ("{acme: {gpu: {nlp: 3}}}", 2, "nlp must be a role, or null"),
        ("{acme: {gpu: {nlp: boss}}}", 6, "'boss' is not allowed for role"),
        ("{other: {gpu: {nlp: lead}}}", 6, "'other' is not allowed for provider; allowed are 'acme'"),
        ("{acme: {gpu: {nowhere: lead}}}", 3, "There is no team 'nowhere'"),
        ("{acme: {gpu: {nlp: org-admin}}}", 6, "a role of the whole organisation"),
    ],
)
def test_roles_that_cannot_be_are_sentences(run: Run, text: str, code: int, words: str) -> None:
    for command in ("diff", "apply"):
        result = run(command, "-f", "-", stdin=f"sign_in: {{groups: {text}}}")
        assert (result.exit_code, words in result.stderr) == (code, True), result.stderr
    assert given() == set()
