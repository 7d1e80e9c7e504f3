"""`chamber apply` and `chamber diff` of how people sign in."""

import json

import pytest

from chamber.models import User
from chamber.tests.cli.conftest import Run
from chamber.tests.cli.test_apply import Become
from teams.models import AuditEvent, Role, SignInPolicy, Team
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
        ("sign_in: {factor: 1}", 2, "there is no 'factor' here; known are second_factor"),
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
