"""Service accounts: who makes and manages them, what they may do, and that nobody gains a right by one."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from chamber import sign_ins
from chamber.errors import Conflict, NotAllowed, Refusal
from chamber.limits import Exceeded
from chamber.models import Scope, ServiceAccount, ServiceToken, User
from chamber.people import actions as people
from chamber.people import reading
from chamber.people.leaving import Leaving
from chamber.services import actions
from chamber.tests.services.conftest import Program, World
from chamber.tokens import TokenRequest, create_token
from teams import actions as teams
from teams.actions.members import find_person
from teams.actors import Actor
from teams.models import AuditEvent, Binding, Role, Team
from teams.tests.factories import actor, bind, make_team, member
from workloads.models import Status, Workload
from workloads.tests.factories import make_workload

pytestmark = pytest.mark.stores

SYSTEM = Actor.system("test")
SUBMISSION = {"name": "train", "team": "nlp", "image": "registry.example/train:1"}


def trail(action: str) -> list[tuple[str, str]]:
    rows = AuditEvent.objects.filter(action=f"service-account.{action}")
    return list(rows.values_list("actor", "target_name"))


def test_a_program_submits_as_a_service_account_which_owns_what_it_submits(world: World) -> None:
    account = world.service()
    token, secret = world.token(account, world.lena, Scope.SUBMIT)
    program = Program(secret)

    made = program.send("post", "workloads/", SUBMISSION).json()

    assert made["owner"] == "service:ci"
    assert program.get("me/").json()["roles"] == [{"team": "nlp", "team_name": "NLP", "role": "researcher"}]
    assert program.send("post", f"workloads/{made['slug']}/cancel/").status_code == 200
    assert program.send("post", "teams/", {"parent": "nlp", "name": "More"}).status_code == 403
    token.refresh_from_db()
    assert (token.last_address, token.last_used_at is not None) == ("192.0.2.9", True)
    assert trail("created") == [("lena", "ci")]
    assert trail("token-created") == [("lena", "ci")]


def test_its_tokens_begin_unlike_those_of_people_and_agents(world: World) -> None:
    token, secret = world.token(world.service(), world.lena)
    _, person = create_token(user=world.lena, name="x", scope=Scope.READ, days=1)

    assert (secret[:4], person[:4]) == ("chs_", "chb_")
    assert token.token_hash == ServiceToken.hash_of(secret)
    assert secret not in map(str, ServiceToken.objects.values().get().values())


@pytest.mark.parametrize("who", ["rita", "leo"])
def test_only_leads_and_admins_of_the_team_make_one(world: World, who: str) -> None:
    with pytest.raises(Refusal) as refused:
        actions.create_service(by=actor(getattr(world, who)), name="ci", team=world.nlp)
    assert refused.value.status in {403, 404}
    for number, maker in enumerate((world.lena, world.adam, world.olga)):
        actions.create_service(by=actor(maker), name=f"ci-{number}", team=world.nlp)


@pytest.mark.parametrize("name", ["", "CI", "-ci", "ci-", "c i", "ci\x00", "сi", "x" * 41, "ci\u202e"])
def test_a_name_is_small_letters_digits_and_hyphens(world: World, name: str) -> None:
    with pytest.raises(Refusal, match="is no name for a service account") as refused:
        actions.create_service(by=actor(world.lena), name=name, team=world.nlp)
    assert list(refused.value.fields) == ["name"]


def test_a_name_is_taken_once(world: World) -> None:
    world.service()
    with pytest.raises(Conflict, match="There is a service account named 'ci' already"):
        actions.create_service(by=actor(world.leo), name="ci", team=world.vision)


def test_it_is_no_person(world: World) -> None:
    account = world.service(role=Role.RESEARCHER)

    assert not reading.people().filter(pk=account.user_id).exists()
    assert not account.user.has_usable_password()
    with pytest.raises(Refusal, match="There is no account"):
        teams.add_to_group(by=SYSTEM, group=teams.create_group(by=SYSTEM, name="crew"), who="service:ci")
    with pytest.raises(Refusal, match="is no user name"):
        people.invite(by=SYSTEM, username="service:other")


def test_an_organisation_admin_role_of_one_does_not_keep_the_organisation_open(world: World) -> None:
    account = actions.create_service(by=actor(world.olga), name="terraform", team=world.acme)
    teams.add_member(by=actor(world.olga), team=world.acme, who="service:terraform", role=Role.ORG_ADMIN)
    assert account.user.is_active

    with pytest.raises(Conflict, match="last organisation admin who can sign in"):
        people.disable(by=SYSTEM, user=world.olga)


# Nobody gains a right


def test_who_could_not_give_its_roles_makes_no_token_of_it(world: World) -> None:
    account = world.service()
    teams.add_member(by=actor(world.adam), team=world.nlp, who="service:ci", role=Role.ADMIN)

    with pytest.raises(NotAllowed, match=r"ci is admin of NLP\. Who makes a token of it could act as that"):
        world.token(account, world.lena)
    world.token(account, world.adam)


def test_a_token_of_a_team_carries_only_the_roles_there(world: World) -> None:
    account = world.service()
    teams.add_member(by=actor(world.leo), team=world.vision, who="service:ci", role=Role.VIEWER)

    with pytest.raises(NotAllowed, match="ci is viewer of Vision"):
        world.token(account, world.lena)
    _, secret = world.token(account, world.lena, team=world.nlp)
    assert [each["slug"] for each in Program(secret).get("teams/").json()["results"]] == ["nlp", "speech"]
    world.token(account, world.adam)


def test_a_role_is_not_given_while_somebody_knows_a_token_who_could_not_give_it(world: World) -> None:
    account = world.service()
    token, _ = world.token(account, world.lena)

    with pytest.raises(Conflict, match="made by somebody who may not give the role admin in NLP"):
        teams.add_member(by=actor(world.adam), team=world.nlp, who="service:ci", role=Role.ADMIN)
    binding = Binding.objects.get(user=account.user_id)
    with pytest.raises(Conflict, match="revokes it first"):
        teams.change_role(by=actor(world.adam), binding=binding, role=Role.ADMIN)
    assert Binding.objects.get(user=account.user_id).role == Role.RESEARCHER
    actions.revoke_token(by=actor(world.lena), token=token)
    teams.add_member(by=actor(world.adam), team=world.nlp, who="service:ci", role=Role.ADMIN)


def test_who_was_put_out_may_still_know_a_token(world: World) -> None:
    account = world.service()
    world.token(account, world.adam)
    people.disable(by=SYSTEM, user=world.adam)

    with pytest.raises(Conflict, match="made by somebody who may not give the role lead in NLP"):
        teams.add_member(by=actor(world.olga), team=world.nlp, who="service:ci", role=Role.LEAD)


def test_a_token_of_a_team_elsewhere_keeps_no_role_from_being_given(world: World) -> None:
    account = world.service()
    world.token(account, world.lena, team=world.nlp)

    teams.add_member(by=actor(world.leo), team=world.vision, who="service:ci", role=Role.LEAD)


def test_programs_make_no_service_accounts_and_no_tokens(world: World) -> None:
    account = actions.create_service(by=actor(world.lena), name="robot", team=world.nlp, role=Role.LEAD)
    _, secret = world.token(account, world.lena)
    program = Program(secret)

    for path, body in (
        ("service-accounts/", {"name": "more", "team": "nlp"}),
        ("service-accounts/robot/tokens/", {"name": "more", "scope": "read"}),
        ("tokens/", {"name": "more", "scope": "read"}),
    ):
        answer = program.send("post", path, body)
        assert answer.status_code == 403, path
        assert "by people" in answer.json()["detail"] or "who manage it" in answer.json()["detail"]
    assert ServiceAccount.objects.count() == 1


def test_a_token_made_with_a_token_is_no_more_than_that(world: World) -> None:
    account = world.service()
    own, secret = create_token(user=world.lena, name="x", scope=Scope.MANAGE, days=3, team=world.speech)
    path = "service-accounts/ci/tokens/"
    with_it = Program(secret)
    assert with_it.send("post", path, {"name": "n", "scope": "read"}).status_code == 404, "NLP owns it"
    wide, secret = create_token(user=world.lena, name="x", scope=Scope.MANAGE, days=3)
    with_it = Program(secret)

    refused = with_it.send("post", path, {"name": "n", "scope": "admin"})
    assert (refused.status_code, "makes none of the scope 'admin'" in refused.json()["detail"]) == (403, True)
    made = with_it.send("post", path, {"name": "n", "scope": "manage", "expires_in_days": 300})
    assert made.status_code == 201
    assert ServiceToken.objects.get().expires_at == wide.expires_at
    narrow, secret = create_token(user=world.lena, name="x", scope=Scope.MANAGE, days=3, team=world.nlp)
    refused = Program(secret).send("post", path, {"name": "n", "scope": "read"})
    assert "makes none that reaches more" in refused.json()["detail"]
    assert (
        Program(secret).send("post", path, {"name": "n", "scope": "read", "team": "speech"}).status_code
        == 201
    )
    assert own.team == world.speech
    assert narrow.team == world.nlp
    assert account.tokens.count() == 2


# Ending


def test_disabling_ends_its_tokens_for_good(world: World) -> None:
    account = world.service()
    _, secret = world.token(account, world.lena)
    program = Program(secret)
    assert program.get("me/").status_code == 200

    ended = actions.disable_service(by=actor(world.lena), account=account)

    assert ended == {"tokens": 1, "workloads": 0}
    assert program.get("me/").status_code == 401
    actions.enable_service(by=actor(world.lena), account=account)
    assert program.get("me/").status_code == 401
    _, secret = world.token(account, world.lena)
    assert Program(secret).get("me/").status_code == 200
    assert trail("disabled") == trail("enabled") == [("lena", "ci")]


def test_no_token_is_made_while_it_is_disabled(world: World) -> None:
    account = world.service()
    actions.disable_service(by=actor(world.lena), account=account)
    with pytest.raises(Conflict, match=r"ci is disabled\. Enable it first"):
        world.token(account, world.lena)
    with pytest.raises(Conflict, match="disabled already"):
        actions.disable_service(by=actor(world.lena), account=account)


@pytest.mark.parametrize("leaving", [Leaving.CANCEL, Leaving.HAND_OVER, Leaving.LEAVE])
def test_its_open_workloads_are_left_cancelled_or_handed_over(world: World, leaving: Leaving) -> None:
    account = world.service()
    workload = make_workload(world.nlp, account.user)
    heir = world.rita if leaving is Leaving.HAND_OVER else None

    ended = actions.disable_service(by=actor(world.lena), account=account, workloads=leaving, heir=heir)

    assert ended["workloads"] == 1
    now = Workload.objects.get(pk=workload.pk)
    assert now.owner == (world.rita if heir else account.user)
    assert (now.status == Status.CANCELLED) == (leaving is Leaving.CANCEL)


def test_who_may_not_manage_the_workloads_elsewhere_leaves_them(world: World) -> None:
    account = world.service()
    bind(account.user, world.vision, Role.RESEARCHER)
    make_workload(world.vision, account.user)

    with pytest.raises(NotAllowed, match="ci has open workloads in Vision"):
        actions.disable_service(by=actor(world.lena), account=account, workloads=Leaving.CANCEL)
    assert User.objects.get(pk=account.user_id).is_active
    actions.disable_service(by=actor(world.adam), account=account, workloads=Leaving.CANCEL)


def test_nobody_hands_workloads_over_to_a_service_account(world: World) -> None:
    world.service()
    with pytest.raises(Refusal, match="There is no account"):
        find_person("service:ci")


def test_while_its_team_is_archived_it_is_let_in_nowhere(world: World) -> None:
    team = make_team(world.research, "Short")
    account = actions.create_service(by=actor(world.adam), name="ci", team=team, role=Role.RESEARCHER)
    _, secret = world.token(account, world.adam)
    program = Program(secret)

    teams.archive_team(by=actor(world.adam), team=team)

    refused = program.get("me/")
    assert refused.status_code == 401
    assert refused.json()["detail"] == (
        "The service account ci belongs to Short, which is archived: its tokens let nobody in."
    )
    with pytest.raises(Conflict, match="Short was archived"):
        world.token(account, world.adam)
    teams.unarchive_team(by=actor(world.adam), team=Team.objects.get(pk=team.pk))
    assert program.get("me/").status_code == 200


def test_a_team_that_owns_one_is_not_deleted(world: World) -> None:
    team = make_team(world.research, "Short")
    account = actions.create_service(by=actor(world.adam), name="ci", team=team)

    with pytest.raises(Conflict, match=r"Short owns 1 service account\. Give it to another team first"):
        teams.delete_team(by=actor(world.adam), team=team)
    actions.change_service(by=actor(world.adam), account=account, team=world.nlp)
    teams.delete_team(by=actor(world.adam), team=team)
    row = AuditEvent.objects.get(action="service-account.changed")
    assert (row.before, row.after) == ({"team": "short"}, {"team": "nlp"})


def test_it_is_given_to_a_team_by_who_manages_both(world: World) -> None:
    account = world.service()
    for who in (world.lena, world.leo):
        with pytest.raises(Refusal):
            actions.change_service(by=actor(who), account=account, team=world.vision)
    actions.change_service(by=actor(world.adam), account=account, team=world.vision)
    with pytest.raises(NotAllowed, match="managed by leads and admins of Vision"):
        actions.disable_service(by=actor(world.lena), account=account)


# Rotating


def test_rotating_makes_a_token_like_it_and_lets_the_old_one_go_on_for_a_while(world: World) -> None:
    account = world.service()
    old, secret = world.token(account, world.lena, Scope.SUBMIT, world.speech)

    made, another = actions.rotate_token(by=actor(world.lena), token=old, overlap_minutes=10)

    assert (made.name, made.scope, made.team) == ("runner", "submit", world.speech)
    assert made.expires_at is not None
    assert timedelta(days=29) < made.expires_at - timezone.now() <= timedelta(days=30)
    assert Program(another).get("me/").status_code == Program(secret).get("me/").status_code == 200
    old.refresh_from_db()
    assert old.expires_at is not None
    assert timedelta(minutes=9) < old.expires_at - timezone.now() <= timedelta(minutes=10)
    assert trail("token-rotated") == [("lena", "ci")]
    actions.rotate_token(by=actor(world.lena), token=made, overlap_minutes=0)
    assert Program(another).get("me/").status_code == 401


def test_what_was_revoked_is_not_rotated(world: World) -> None:
    token, _ = world.token(world.service(), world.lena)
    actions.revoke_token(by=actor(world.lena), token=token)
    actions.revoke_token(by=actor(world.lena), token=token)
    with pytest.raises(Conflict, match="make a new token"):
        actions.rotate_token(by=actor(world.lena), token=token)
    assert trail("token-revoked") == [("lena", "ci")]
    assert ServiceToken.objects.count() == 1


def test_a_lead_of_another_team_does_nothing_with_it(world: World) -> None:
    account = world.service()
    token, _ = world.token(account, world.lena)
    by = actor(world.leo)
    for act in (
        lambda: actions.revoke_token(by=by, token=token),
        lambda: actions.rotate_token(by=by, token=token),
        lambda: actions.make_token(by=by, account=account, wanted=TokenRequest("x", Scope.READ)),
        lambda: actions.disable_service(by=by, account=account),
        lambda: actions.enable_service(by=by, account=account),
        lambda: actions.change_service(by=by, account=account, description="mine"),
    ):
        with pytest.raises(NotAllowed, match="managed by leads and admins of NLP"):
            act()


def test_one_has_so_many_tokens_and_no_more(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "MOST_TOKENS", 1)
    account = world.service()
    token, _ = world.token(account, world.lena)
    with pytest.raises(Exceeded, match="ci has 1 valid token, the most") as refused:
        world.token(account, world.lena)
    assert 29 * 86400 < (refused.value.retry_seconds or 0) <= 30 * 86400 + 1, "when the first of them ends"
    ServiceToken.objects.filter(pk=token.pk).update(expires_at=timezone.now())
    world.token(account, world.lena)


def test_what_is_of_no_use_is_forgotten_after_a_month(world: World) -> None:
    token, _ = world.token(world.service(), world.lena)
    ServiceToken.objects.filter(pk=token.pk).update(revoked_at=timezone.now() - timedelta(days=31))
    sign_ins.forget(timezone.now())
    assert not ServiceToken.objects.exists()


def test_the_database_refuses_a_scope_that_there_is_not(world: World) -> None:
    token, _ = world.token(world.service(), world.lena)
    with pytest.raises(IntegrityError), transaction.atomic():
        ServiceToken.objects.filter(pk=token.pk).update(scope="root")


def test_who_lost_the_role_makes_no_more_tokens(world: World) -> None:
    account = world.service()
    maker = member(world.nlp, Role.LEAD, "mo")
    world.token(account, maker)
    Binding.objects.filter(user=maker).delete()
    with pytest.raises(NotAllowed):  # the object still knows the role of before
        world.token(account, maker)
