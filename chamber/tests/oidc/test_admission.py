"""Who is let in by a provider: by domain or group, made or linked, with the roles that groups give."""

from typing import Any

import pytest
from allauth.socialaccount.models import SocialAccount
from django.test import Client
from pytest_django.fixtures import Settings

from chamber.models import ApiToken, Scope, User
from chamber.people import actions as people
from chamber.tests.oidc.conftest import PHRASE, Configure
from chamber.tests.oidc.idp import Idp, left_for, sign_in
from chamber.tokens import create_token
from teams import actions
from teams.actors import Actor
from teams.models import AuditEvent, Binding, ProviderGroup, Role, Team
from teams.tests.factories import actor, bind, make_user, member

pytestmark = [pytest.mark.django_db, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
SYSTEM = Actor.system("test")


def is_in(client: Client) -> bool:
    return client.get("/settings/").status_code == 200


def comes_in(idp: Idp, sub: str = "ada") -> bool:
    client, answer = sign_in(idp, sub)
    assert answer.status_code == (302 if is_in(client) else 403)
    return is_in(client)


def said(idp: Idp, sub: str = "ada") -> str:
    client, answer = sign_in(idp, sub)
    assert not is_in(client)
    return str(answer.content.decode())


def not_let_in() -> list[tuple[str, Any]]:
    rows = AuditEvent.objects.filter(action="person.not-let-in").order_by("at")
    return [(row.target_name, row.after["why"]) for row in rows]


def mapped(by: User, team: Team, role: Role | None, group: str = "gpu-users") -> None:
    actions.set_provider_role(by=actor(by), provider="acme", name=group, team=team, role=role)


def roles(username: str = "ada.l") -> list[tuple[str, str]]:
    rows = Binding.objects.filter(group__user__username=username).order_by("team__path", "role")
    return list(rows.values_list("team__slug", "role"))


@pytest.mark.parametrize(
    ("claims", "lets_in"),
    [
        ({"email": "ada@acme.example", "email_verified": True}, True),
        ({"email": "ada@acme.example", "email_verified": "true"}, True),
        ({"email": "ada@acme.example", "email_verified": False}, False),
        ({"email": "ada@acme.example"}, False),
        ({"email": "ada@evil.example", "email_verified": True}, False),
        ({"email": "ada@sub.acme.example", "email_verified": True}, False),
        ({"email": "ada@acme.example@evil.example", "email_verified": True}, False),
        ({"email": "ada@evil.example", "email_verified": True, "groups": ["gpu-users"]}, True),
        ({"groups": ["GPU-users"]}, False),
        ({"groups": "gpu-users"}, True),
        ({"groups": {"gpu-users": True}}, False),
        ({}, False),
    ],
)
def test_a_verified_address_of_a_domain_or_a_group_lets_in(
    idp: Idp, configure: Configure, acme: Team, claims: dict[str, Any], lets_in: bool
) -> None:
    configure(allowed_domains=["Acme.example"], allowed_groups=["gpu-users"])
    idp.person("ada", **claims)
    assert comes_in(idp) == lets_in
    assert User.objects.exists() == lets_in
    if not lets_in:
        assert "organisation admin" in said(idp)
        assert not_let_in()[0] == ("(no such account)", "not allowed")


def test_an_address_that_is_not_verified_is_nobody_s(idp: Idp, configure: Configure, acme: Team) -> None:
    configure(allowed_groups=["*"])
    idp.person("ada", email="ada@acme.example", preferred_username="ada")
    assert comes_in(idp)
    assert User.objects.get().email == ""


def test_where_nothing_is_said_a_group_that_gives_a_role_lets_in(
    idp: Idp, configure: Configure, olga: User, nlp: Team
) -> None:
    configure()
    idp.person("ada", preferred_username="ada.l", groups=["gpu-users"])
    assert not comes_in(idp)
    mapped(olga, nlp, Role.RESEARCHER)
    assert comes_in(idp)
    assert roles() == [("nlp", "researcher")]


def test_a_group_may_lie_anywhere_in_the_claims(idp: Idp, configure: Configure, acme: Team) -> None:
    configure(allowed_groups=["gpu"], groups_claim="realm_access.roles")
    idp.person("ada", realm_access={"roles": ["gpu"]})
    assert comes_in(idp)
    configure(allowed_groups=["gpu"], groups_claim="https://acme.example/groups")
    idp.person("bob", **{"https://acme.example/groups": ["gpu"]})
    assert comes_in(idp, "bob")


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ("Ada.L", "ada.l"),
        ("ada@acme.example", "ada"),
        ("Ada Lovelace", "ada-lovelace"),
        ("olga", "olga-2"),
        ("Ωmega", "mega"),
        ("--", "person"),
        ("", "ada"),
        ("x" * 300, "x" * 56),
        ("ada\x00/../", "ada"),
    ],
)
def test_a_user_name_is_one_that_may_be_and_nobody_has(
    idp: Idp, configure: Configure, olga: User, told: str, name: str
) -> None:
    configure(allowed_groups=["*"])
    claims = {"preferred_username": told} if told else {}
    idp.person("x", email="ada@acme.example", email_verified=True, **claims)
    assert comes_in(idp, "x")
    assert User.objects.exclude(pk=olga.pk).get().username == name


def test_what_cannot_be_seen_of_a_name_is_left_out(idp: Idp, configure: Configure, acme: Team) -> None:
    configure(allowed_groups=["*"])
    idp.person("ada", preferred_username="ada", name="Ada\u202e \u3164Lovelace" + "x" * 300)
    assert comes_in(idp)
    user = User.objects.get()
    assert user.first_name == "Ada"
    assert user.last_name.startswith("Lovelacex")
    assert len(user.get_full_name()) == 150


def test_an_address_of_an_account_here_is_not_taken_over_unless_the_operator_says_so(
    idp: Idp, configure: Configure, acme: Team
) -> None:
    holder = make_user("ada", email="ada@acme.example", password=PHRASE)
    configure(allowed_domains=["acme.example"])
    assert "may not take it over" in said(idp)
    assert not SocialAccount.objects.exists()
    assert not_let_in() == [("ada", "address taken")]
    configure(allowed_domains=["acme.example"], link_by_email=True)
    client, _ = sign_in(idp, "ada")
    assert client.get("/api/v1/me/").json()["username"] == "ada"
    assert SocialAccount.objects.get().user == holder
    [row] = AuditEvent.objects.filter(action="person.linked")
    assert (row.actor, row.target_name, row.address) == ("provider acme", "ada", "127.0.0.1")


def test_an_address_that_is_not_verified_takes_over_nothing(
    idp: Idp, configure: Configure, acme: Team
) -> None:
    make_user("ada", email="ada@acme.example", password=PHRASE)
    configure(allowed_groups=["*"], link_by_email=True)
    idp.person("mallory", email="ada@acme.example", preferred_username="ada", email_verified=False)
    client, _ = sign_in(idp, "mallory")
    assert client.get("/api/v1/me/").json()["username"] == "ada-2"


def test_a_second_person_there_does_not_take_over_an_account_that_is_linked(
    idp: Idp, configure: Configure, acme: Team
) -> None:
    make_user("ada", email="ada@acme.example", password=PHRASE)
    configure(allowed_domains=["acme.example"], link_by_email=True)
    assert comes_in(idp)
    idp.person("mallory", email="ada@acme.example", email_verified=True)
    assert "another person" in said(idp, "mallory")


def test_who_was_invited_is_linked_and_their_link_ends(
    idp: Idp, configure: Configure, olga: User, nlp: Team
) -> None:
    made = people.invite(by=actor(olga), username="ada", email="ada@acme.example", team=nlp, role=Role.VIEWER)
    configure(allowed_domains=["acme.example"], link_by_email=True)
    assert comes_in(idp)
    assert Client().get(f"/welcome/{made.secret}/").status_code == 410


def test_disabling_here_wins(idp: Idp, configure: Configure, olga: User) -> None:
    configure(allowed_domains=["acme.example"])
    assert comes_in(idp)
    people.disable(by=actor(olga), user=User.objects.get(username="ada.l"))
    assert "disabled" in said(idp)
    assert not_let_in() == [("ada.l", "disabled")]


def test_another_issuer_under_the_same_id_is_nobody(
    idp: Idp, configure: Configure, acme: Team, settings: Settings
) -> None:
    configure(allowed_domains=["acme.example"])
    assert comes_in(idp)
    account = SocialAccount.objects.get()
    account.extra_data["issuer"] = "https://the-one-before.example"
    account.save()
    assert "another one than that" in said(idp)


def test_groups_give_roles_and_take_them_away_at_the_next_sign_in(
    idp: Idp, configure: Configure, olga: User, acme: Team, nlp: Team
) -> None:
    configure(allowed_groups=["*"])
    mapped(olga, nlp, Role.LEAD)
    mapped(olga, acme, Role.VIEWER, "everybody")
    idp.person("ada", preferred_username="ada.l", groups=["gpu-users", "everybody", "unknown"])
    client, _ = sign_in(idp, "ada")
    assert roles() == [("acme", "viewer"), ("nlp", "lead")]
    assert client.get("/teams/nlp/").status_code == 200
    ada = User.objects.get(username="ada.l")
    bind(ada, nlp, Role.RESEARCHER)
    idp.person("ada", preferred_username="ada.l", groups=["everybody"])
    sign_in(idp, "ada")
    assert roles() == [("acme", "viewer")]
    assert Binding.objects.filter(user=ada).count() == 1, "what was given by hand stays apart"
    rows = AuditEvent.objects.filter(action__startswith="group.person-").order_by("at")
    assert [(row.actor, row.action, row.target_name) for row in rows] == [
        ("provider acme", "group.person-added", "acme:gpu-users"),
        ("provider acme", "group.person-added", "acme:everybody"),
        ("provider acme", "group.person-removed", "acme:gpu-users"),
    ]


def test_who_is_in_no_allowed_group_any_more_can_do_nothing(
    idp: Idp, configure: Configure, olga: User, nlp: Team
) -> None:
    configure(allowed_groups=["gpu-users"])
    mapped(olga, nlp, Role.RESEARCHER)
    idp.person("ada", preferred_username="ada.l", groups=["gpu-users"])
    first, _ = sign_in(idp, "ada")
    ada = User.objects.get(username="ada.l")
    create_token(user=ada, name="x", scope=Scope.READ, days=1)
    idp.person("ada", preferred_username="ada.l", groups=[])
    assert "You are in no group that is let in here" in said(idp)
    assert not is_in(first), "nor by the session of before"
    assert roles() == []
    assert ApiToken.objects.filter(revoked_at=None).count() == 0
    [row] = AuditEvent.objects.filter(action="person.not-let-in")
    assert row.after == {"provider": "acme", "why": "not allowed", "sessions": 1, "tokens": 1}


def test_who_has_a_password_here_keeps_what_they_have_by_it(
    idp: Idp, configure: Configure, olga: User, nlp: Team
) -> None:
    ada = member(nlp, Role.VIEWER, "ada", email="ada@acme.example", password=PHRASE)
    configure(allowed_groups=["gpu-users"], link_by_email=True)
    mapped(olga, nlp, Role.LEAD)
    values = {"email": "ada@acme.example", "email_verified": True}
    idp.person("ada", **values, groups=["gpu-users"])
    by_provider, _ = sign_in(idp, "ada")
    by_password = Client()
    by_password.post("/sign-in/", {"login": "ada", "password": PHRASE})
    create_token(user=ada, name="x", scope=Scope.READ, days=1)
    idp.person("ada", **values, groups=[])
    said(idp)
    assert (is_in(by_provider), is_in(by_password)) == (False, True)
    assert roles("ada") == []
    assert ApiToken.objects.filter(revoked_at=None).count() == 1


def test_the_last_organisation_admin_is_not_taken_away(
    idp: Idp, configure: Configure, olga: User, acme: Team, caplog: pytest.LogCaptureFixture
) -> None:
    configure(allowed_groups=["*"])
    mapped(olga, acme, Role.ORG_ADMIN, "admins")
    idp.person("ada", preferred_username="ada.l", groups=["admins"])
    assert comes_in(idp)
    people.disable(by=SYSTEM, user=olga)
    idp.person("ada", preferred_username="ada.l", groups=[])
    assert comes_in(idp)
    assert roles() == [("acme", "org-admin")]
    assert "no other organisation admin can sign in" in caplog.text
    people.enable(by=SYSTEM, user=olga)
    assert comes_in(idp)
    assert roles() == []


def test_nobody_fills_such_a_group_by_hand(configure: Configure, olga: User, nlp: Team) -> None:
    configure()
    mapped(olga, nlp, Role.LEAD)
    group = ProviderGroup.objects.get().group
    client = Client()
    client.force_login(olga)
    answer = client.post(f"/settings/groups/{group.pk}/", {"who": "olga"})
    assert answer.status_code == 422
    assert "filled by an identity provider" in answer.content.decode()
    gone = client.delete(f"/api/v1/groups/{group.pk}/")
    assert gone.status_code == 409
    group.user_set.add(olga)
    client.post(f"/settings/groups/{group.pk}/people/olga/remove/")
    assert group.user_set.exists()


def test_a_mapping_is_replaced_and_its_group_goes_with_the_last(
    configure: Configure, olga: User, acme: Team, nlp: Team
) -> None:
    configure()
    mapped(olga, nlp, Role.VIEWER)
    mapped(olga, nlp, Role.LEAD)
    mapped(olga, acme, Role.VIEWER)
    rows = Binding.objects.exclude(group=None).order_by("team__path")
    assert list(rows.values_list("team__slug", "role")) == [("acme", "viewer"), ("nlp", "lead")]
    mapped(olga, nlp, None)
    mapped(olga, acme, None)
    assert not ProviderGroup.objects.exists()
    mapped(olga, acme, None)  # what is not there is taken away already


def test_a_long_name_of_a_group_is_told_apart(configure: Configure, olga: User, nlp: Team) -> None:
    configure()
    for end in ("a", "b"):
        mapped(olga, nlp, Role.VIEWER, "CN=" + "x" * 240 + end)
    names = list(ProviderGroup.objects.values_list("group__name", flat=True))
    assert len(set(names)) == 2
    assert {len(name) for name in names} == {150}


def test_a_second_factor_here_is_asked_for_besides(idp: Idp, configure: Configure, acme: Team) -> None:
    from chamber.tests.factors.conftest import SECRET, with_app
    from chamber.tests.factors.devices import code_of

    configure(allowed_domains=["acme.example"])
    assert comes_in(idp)
    with_app(User.objects.get())
    client, answer = sign_in(idp, "ada", next="/tokens/")
    assert answer.headers["Location"] == "/sign-in/factor/"
    assert not is_in(client)
    assert client.post("/sign-in/factor/", {"code": code_of(SECRET)}).headers["Location"] == "/tokens/"
    assert is_in(client)
    row = AuditEvent.objects.filter(action="person.signed-in").latest("at")
    assert row.after == {"factor": "authenticator app", "provider": "acme"}
    configure(allowed_domains=["acme.example"], second_factor=True)
    assert comes_in(idp), "the provider has asked for one"


def test_a_provider_that_asks_for_a_factor_is_enough_where_one_is_required(
    idp: Idp, configure: Configure, acme: Team
) -> None:
    configure(allowed_domains=["acme.example"])
    actions.require_second_factor(by=SYSTEM, version=0, required=True, grace_days=0)
    client, _ = sign_in(idp, "ada")
    assert client.get("/").headers["Location"] == "/settings/factors/"
    configure(allowed_domains=["acme.example"], second_factor=True)
    assert client.get("/").status_code == 200
    ada = User.objects.get()
    ada.set_password(PHRASE)
    ada.save()
    by_password = Client()
    by_password.post("/sign-in/", {"login": ada.username, "password": PHRASE})
    assert by_password.get("/").headers["Location"] == "/settings/factors/", "by the password alone"


def test_two_first_sign_ins_at_once_make_one_account(idp: Idp, configure: Configure, acme: Team) -> None:
    configure(allowed_domains=["acme.example"])
    one, two = Client(), Client()
    backs = [idp.sent_back(left_for(each.post("/sign-in/with/acme/")), "ada") for each in (one, two)]
    for client, back in zip((one, two), backs, strict=True):
        assert client.get(back).status_code == 302
    assert User.objects.count() == 1
