"""What a link, an address or a session is not good for: getting at the account of somebody else."""

from collections.abc import Callable, Iterator

import pytest
from django.contrib.auth.models import Group
from django.core import mail
from django.core.cache import cache
from django.db import IntegrityError, transaction
from django.test import Client
from pytest_django.fixtures import Settings

from chamber import mailing, views_sign_in
from chamber.errors import Conflict, NotAllowed, Refusal
from chamber.limits import Exceeded
from chamber.models import AccountLink, ApiToken, Scope, User
from chamber.people import actions
from chamber.tokens import create_token
from teams import actions as on_teams
from teams.actors import Actor
from teams.members import org_admins
from teams.models import AuditEvent, Binding, Role, Team
from teams.permissions import Permission, may_anywhere
from teams.tests.factories import actor, make_org, make_team, member

pytestmark = pytest.mark.django_db
PHRASE = "rotor glade mosaic 41"
SYSTEM = Actor.system("test")
NEXT = "harbour lantern quilt 8"


@pytest.fixture(autouse=True)
def _no_tries_yet() -> None:
    cache.clear()


@pytest.fixture
def acme() -> Team:
    return make_org("Acme")


@pytest.fixture
def olga(acme: Team) -> User:
    return member(acme, Role.ORG_ADMIN, "olga", password=PHRASE)


@pytest.fixture
def nlp(acme: Team) -> Team:
    return make_team(acme, "NLP")


@pytest.fixture
def lea(nlp: Team) -> User:
    return member(nlp, Role.LEAD, "lea", password=PHRASE)


@pytest.fixture
def mailed(settings: Settings) -> Iterator[None]:
    """Mails are sent; none is under way any more when the next test begins."""
    settings.MAIL = True
    yield
    assert mailing.settle()


def mailed_link(part: str) -> str:
    """Return the one link with this part in the mails that were sent."""
    assert mailing.settle()
    (found,) = [word for message in mail.outbox for word in str(message.body).split() if part in word]
    return found


def on(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def set_by(link: str, password: str) -> int:
    """Open a mailed link for a new password in another browser, send one, and return the status."""
    client = Client()
    there = client.get(link, follow=True).request["PATH_INFO"]
    return client.post(there, {"password1": password, "password2": password}).status_code


def is_of_no_use(secret: str) -> bool:
    with pytest.raises(Refusal) as refused:
        actions.use_link(secret=secret, password=NEXT)
    return refused.value.status == 410


def test_an_invitation_is_of_no_use_to_whom_is_invited_no_more(olga: User) -> None:
    made = actions.invite(by=actor(olga), username="ivy")
    ivy = User.objects.get(username="ivy")
    ivy.set_password(PHRASE)
    ivy.save()
    assert is_of_no_use(made.secret)
    assert Client().get(f"/welcome/{made.secret}/").status_code == 410
    ivy.refresh_from_db()
    assert ivy.check_password(PHRASE)


def test_a_link_for_a_new_password_ends_when_the_password_is_changed(olga: User, acme: Team) -> None:
    ada = member(acme, Role.VIEWER, "ada", password=PHRASE)
    made = actions.new_link(by=actor(olga), user=ada)
    values = {"oldpassword": PHRASE, "password1": NEXT, "password2": NEXT}
    assert on(ada).post("/settings/password/", values).status_code == 302
    assert is_of_no_use(made.secret)


@pytest.mark.parametrize("how", ["role", "changed role", "group with the role", "role of the group"])
def test_the_link_that_a_lead_made_ends_with_a_role_that_the_lead_cannot_give(
    lea: User, olga: User, nlp: Team, acme: Team, how: str
) -> None:
    made = actions.invite(by=actor(lea), username="ivy", team=nlp, role=Role.VIEWER)
    if how == "role":
        on_teams.add_member(by=actor(olga), team=acme, who="ivy", role=Role.VIEWER)
    elif how == "changed role":
        binding = Binding.objects.get(user=made.link.user)
        on_teams.change_role(by=actor(olga), binding=binding, role=Role.ADMIN)
    else:
        group = on_teams.create_group(by=actor(olga), name="ops")
        give = {"by": actor(olga), "team": acme, "who": "group:ops", "role": Role.OPERATOR}
        if how == "group with the role":
            on_teams.add_member(**give)  # type: ignore[arg-type]
        on_teams.add_to_group(by=actor(olga), group=group, who="ivy")
        if how == "role of the group":
            assert AccountLink.objects.filter(used_at=None).exists(), "a group without a role gives none"
            on_teams.add_member(**give)  # type: ignore[arg-type]
    assert is_of_no_use(made.secret)


def test_a_link_outlives_roles_that_its_maker_could_give(
    lea: User, olga: User, nlp: Team, acme: Team
) -> None:
    made = actions.invite(by=actor(lea), username="ivy", team=nlp, role=Role.VIEWER)
    on_teams.add_member(by=actor(olga), team=nlp, who="ivy", role=Role.LEAD)
    actions.use_link(secret=made.secret, password=PHRASE)
    made = actions.invite(by=actor(olga), username="joe")
    on_teams.add_member(by=actor(olga), team=acme, who="joe", role=Role.ORG_ADMIN)
    actions.use_link(secret=made.secret, password=PHRASE)


def test_links_that_somebody_has_read_end_when_they_are_put_out(lea: User, olga: User, nlp: Team) -> None:
    read = actions.invite(by=actor(lea), username="ivy", team=nlp, role=Role.VIEWER)
    sent = actions.invite(
        by=actor(lea), username="joe", email="joe@acme.example", team=nlp, role=Role.VIEWER, mailed=True
    )
    actions.disable(by=actor(olga), user=lea)
    assert is_of_no_use(read.secret)
    actions.use_link(secret=sent.secret, password=PHRASE)


def test_a_lead_gets_no_link_of_somebody_whom_another_invited(
    lea: User, olga: User, nlp: Team, mailed: None
) -> None:
    assert on(olga).post("/people/", {"username": "ivy", "email": "ivy@acme.example"}).status_code == 200
    on_teams.add_member(by=actor(lea), team=nlp, who="ivy", role=Role.VIEWER)
    for values in ({"show": "1"}, {}):
        assert on(lea).post("/people/ivy/link/", values).status_code == 403
    assert "/people/ivy/link/" not in on(lea).get("/people/ivy/").content.decode()
    other = member(nlp, Role.LEAD, "leo")
    joe = actions.invite(by=actor(lea), username="joe", team=nlp, role=Role.VIEWER).link.user
    with pytest.raises(NotAllowed):
        actions.new_link(by=actor(other), user=joe)
    actions.new_link(by=actor(lea), user=joe)
    assert mailed_link("/welcome/"), "the first one is good"


def test_a_lead_has_a_link_shown_only_where_it_cannot_be_mailed(
    lea: User, olga: User, nlp: Team, mailed: None
) -> None:
    values = {"username": "ivy", "email": "ivy@acme.example", "team": nlp, "role": Role.VIEWER}
    with pytest.raises(NotAllowed, match="The link goes by mail to ivy"):
        actions.invite(by=actor(lea), **values)  # type: ignore[arg-type]
    assert not User.objects.filter(username="ivy").exists()
    ivy = actions.invite(by=actor(lea), **values, mailed=True).link.user  # type: ignore[arg-type]
    assert on(lea).post("/people/ivy/link/", {"show": "1"}).status_code == 403
    actions.new_link(by=actor(lea), user=ivy, mailed=True)
    actions.new_link(by=actor(olga), user=ivy)


def test_a_lead_gets_no_link_of_somebody_in_a_group(lea: User, nlp: Team) -> None:
    ivy = actions.invite(by=actor(lea), username="ivy", team=nlp, role=Role.VIEWER).link.user
    actions.new_link(by=actor(lea), user=ivy)
    ivy.groups.create(name="ops")
    with pytest.raises(NotAllowed):
        actions.new_link(by=actor(lea), user=ivy)


def test_a_lead_gets_no_link_of_who_was_put_out(lea: User, nlp: Team) -> None:
    made = actions.invite(by=actor(lea), username="ivy", team=nlp, role=Role.VIEWER)
    User.objects.filter(username="ivy").update(is_active=False)
    with pytest.raises(Refusal) as refused:
        actions.find_link(made.secret)
    assert refused.value.status == 410
    with pytest.raises(Conflict, match="disabled"):
        actions.new_link(by=actor(lea), user=made.link.user)


def test_a_link_that_was_opened_before_somebody_was_put_out_sets_nothing(
    olga: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = actions.invite(by=actor(olga), username="ivy")
    found = actions.find_link(made.secret)
    User.objects.filter(username="ivy").update(is_active=False)
    monkeypatch.setattr(actions, "find_link", lambda _: found)
    assert is_of_no_use(made.secret)
    assert not User.objects.get(username="ivy").has_usable_password()


def test_an_address_that_is_not_confirmed_neither_signs_in_nor_resets(
    nlp: Team, olga: User, mailed: None
) -> None:
    vic = member(nlp, Role.VIEWER, "vic", password=PHRASE)
    assert (
        on(vic).post("/settings/", {"email": "typo@stranger.example", "password": PHRASE}).status_code == 302
    )
    assert mailed_link("/address/")
    mail.outbox.clear()
    values = {"login": "typo@stranger.example", "password": PHRASE}
    assert Client().post("/sign-in/", values).status_code == 422
    assert Client().post("/sign-in/forgotten/", {"email": "typo@stranger.example"}).status_code == 302
    assert mailing.settle()
    assert mail.outbox == []
    Client().post("/sign-in/forgotten/", {"email": "vic@example.org"})
    assert mailed_link("/forgotten/")


def test_an_address_that_was_replaced_neither_signs_in_nor_resets(
    nlp: Team, olga: User, mailed: None
) -> None:
    vic = member(nlp, Role.VIEWER, "vic", password=PHRASE)
    actions.change(by=actor(olga), user=vic, email="new@acme.example")
    for login, status in (("vic@example.org", 422), ("new@acme.example", 302), ("vic", 302)):
        assert Client().post("/sign-in/", {"login": login, "password": PHRASE}).status_code == status
    assert mailing.settle()
    mail.outbox.clear()  # of the second browser
    Client().post("/sign-in/forgotten/", {"email": "vic@example.org"})
    assert mailing.settle()
    assert mail.outbox == []


def test_a_corrected_address_ends_the_link_that_was_mailed_to_the_wrong_one(olga: User) -> None:
    made = actions.invite(by=actor(olga), username="ivy", email="wrong@stranger.example", mailed=True)
    actions.change(by=actor(olga), user=made.link.user, email="ivy@acme.example")
    assert is_of_no_use(made.secret)


def test_a_pending_address_ends_where_an_admin_gives_another(nlp: Team, olga: User, mailed: None) -> None:
    vic = member(nlp, Role.VIEWER, "vic", password=PHRASE)
    on(vic).post("/settings/", {"email": "mine@x.example", "password": PHRASE})
    link = mailed_link("/address/")
    actions.change(by=actor(olga), user=vic, email="given@acme.example")
    assert Client().post(link).status_code == 410
    vic.refresh_from_db()
    assert vic.email == "given@acme.example"


def test_of_old_names_that_differ_in_case_each_signs_in_as_written(acme: Team) -> None:
    for name, password in (("Ada", PHRASE), ("ada", NEXT)):
        member(acme, Role.VIEWER, name, password=password, email="")
    for name, password, status in (
        ("Ada", PHRASE, 302), ("ada", NEXT, 302), ("Ada", NEXT, 422), ("ADA", PHRASE, 422),
    ):  # fmt: skip
        assert Client().post("/sign-in/", {"login": name, "password": password}).status_code == status


def test_an_address_given_with_capitals_signs_in_and_resets(olga: User, mailed: None) -> None:
    made = actions.invite(by=actor(olga), username="ivy", email="Ivy@Acme.example")
    actions.use_link(secret=made.secret, password=PHRASE)
    for login in ("ivy@acme.example", "Ivy@Acme.example", "IVY"):
        assert Client().post("/sign-in/", {"login": login, "password": PHRASE}).status_code == 302
    Client().post("/sign-in/forgotten/", {"email": "Ivy@Acme.example"})
    assert set_by(mailed_link("/forgotten/"), NEXT) == 302


@pytest.mark.parametrize("given", ["later@acme.example", "Later@Acme.example"])
def test_confirming_takes_no_address_that_another_account_was_given_meanwhile(
    nlp: Team, olga: User, mailed: None, given: str
) -> None:
    vic = member(nlp, Role.VIEWER, "vic", password=PHRASE)
    on(vic).post("/settings/", {"email": "later@acme.example", "password": PHRASE})
    link = mailed_link("/address/")
    actions.invite(by=actor(olga), username="otto", email=given)
    answer = Client().post(link, follow=True)
    assert "belongs to another account" in answer.content.decode()
    assert User.objects.get(email="later@acme.example").username == "otto"
    vic.refresh_from_db()
    assert vic.email == "vic@example.org"
    assert not vic.emailaddress_set.filter(verified=True).exists()  # type: ignore[attr-defined]


def test_the_database_refuses_an_address_twice_in_whatever_case(nlp: Team) -> None:
    vic = member(nlp, Role.VIEWER, "vic")
    member(nlp, Role.VIEWER, "nobody", email="")
    member(nlp, Role.VIEWER, "nobody2", email="")
    with pytest.raises(IntegrityError), transaction.atomic():
        User.objects.exclude(pk=vic.pk).filter(username="nobody").update(email="VIC@example.org")


def test_a_confirmed_address_ends_the_links_of_before(nlp: Team, olga: User, mailed: None) -> None:
    vic = member(nlp, Role.VIEWER, "vic", password=PHRASE)
    on(vic).post("/settings/", {"email": "mine@x.example", "password": PHRASE})
    made = actions.new_link(by=actor(olga), user=vic)
    assert Client().post(mailed_link("/address/")).status_code == 302
    vic.refresh_from_db()
    assert vic.email == "mine@x.example"
    assert is_of_no_use(made.secret)


def test_a_lead_acts_with_the_roles_of_now_not_with_those_of_the_request(lea: User, nlp: Team) -> None:
    ivy = actions.invite(by=actor(lea), username="ivy", team=nlp, role=Role.VIEWER).link.user
    assert may_anywhere(lea, Permission.MANAGE_MEMBERS), "kept on the user from here on"
    Binding.objects.filter(user=lea).delete()
    with pytest.raises(Refusal):
        actions.invite(by=actor(lea), username="joe", team=nlp, role=Role.VIEWER)
    with pytest.raises(NotAllowed):
        actions.new_link(by=actor(lea), user=ivy)


def test_a_lead_who_was_put_out_meanwhile_lets_nobody_in(lea: User, nlp: Team) -> None:
    User.objects.filter(pk=lea.pk).update(is_active=False)
    with pytest.raises(NotAllowed, match="disabled"):
        actions.invite(by=actor(lea), username="ivy", team=nlp, role=Role.VIEWER)
    with pytest.raises(NotAllowed, match="disabled"):
        actions.change(by=actor(lea), user=lea, name="Lea")


def test_who_may_invite_nobody_learns_nothing_of_accounts(olga: User, nlp: Team) -> None:
    vic = on(member(nlp, Role.VIEWER, "vic"))
    lea = on(member(nlp, Role.LEAD, "lea"))
    for client, role in ((vic, "viewer"), (lea, "admin")):
        answers = [
            client.post(
                "/api/v1/people/",
                {"username": name, "email": email, "team": "nlp", "role": role},
                content_type="application/json",
            )
            for name, email in (("olga", ""), ("free", ""), ("free", "olga@example.org"), ("no name", ""))
        ]
        assert {answer.status_code for answer in answers} == {403}
        assert len({answer.json()["detail"] for answer in answers}) == 1


def test_links_lead_to_the_public_address_whatever_the_request_says(
    nlp: Team, olga: User, mailed: None, settings: Settings
) -> None:
    settings.DEFAULT_FROM_EMAIL = "chamber@example.org"
    settings.PUBLIC_URL, settings.ALLOWED_HOSTS = (
        "https://chamber.example.org",
        ["localhost", "chamber.example.org"],
    )
    vic = member(nlp, Role.VIEWER, "vic", password=PHRASE)
    elsewhere = {"headers": {"Host": "localhost:4444"}}
    Client(**elsewhere).post("/sign-in/forgotten/", {"email": "vic@example.org"})  # type: ignore[arg-type]
    assert mailed_link("/forgotten/").startswith("https://chamber.example.org/sign-in/forgotten/")
    mail.outbox.clear()
    client = Client(**elsewhere)  # type: ignore[arg-type]
    client.force_login(vic)
    client.post("/settings/", {"email": "mine@x.example", "password": PHRASE})
    assert mailed_link("/address/").startswith("https://chamber.example.org/sign-in/address/")
    mail.outbox.clear()
    client.force_login(olga)
    client.post("/people/", {"username": "ivy", "email": "ivy@acme.example"})
    assert mailed_link("/welcome/").startswith("https://chamber.example.org/welcome/")
    text = client.post("/people/", {"username": "joe"}).content.decode()
    assert "https://chamber.example.org/welcome/" in text
    assert "localhost" not in str([message.message() for message in mail.outbox])


def test_wrong_present_passwords_are_bounded_and_noted(nlp: Team) -> None:
    client = on(member(nlp, Role.VIEWER, "vic", password=PHRASE))
    wrong = {"oldpassword": "wrong", "password1": NEXT, "password2": NEXT}
    statuses = [client.post("/settings/password/", wrong).status_code for _ in range(12)]
    assert statuses == [422] * 10 + [429] * 2
    answer = client.post("/settings/password/", {**wrong, "oldpassword": PHRASE})
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) > 0
    assert User.objects.get(username="vic").check_password(PHRASE)
    assert AuditEvent.objects.filter(action="person.password-refused", actor="vic").count() == 10


@pytest.mark.parametrize("how", ["role taken", "role changed", "out of the group", "disabled"])
def test_who_is_only_invited_is_no_organisation_admin_to_leave_alone(acme: Team, how: str) -> None:
    olga = member(acme, Role.VIEWER, "olga", password=PHRASE)
    group = Group.objects.create(name="ops")
    if how == "out of the group":
        Binding.objects.create(group=group, team=acme, role=Role.ORG_ADMIN)
        group.user_set.add(olga)
    binding = Binding.objects.get(user=olga)
    if how != "out of the group":
        Binding.objects.update(role=Role.ORG_ADMIN)
    made = actions.invite(by=SYSTEM, username="ghost", team=acme, role=Role.ORG_ADMIN)

    def lose_the_last() -> None:
        if how == "role taken":
            on_teams.remove_member(by=SYSTEM, binding=binding)
        elif how == "role changed":
            on_teams.change_role(by=SYSTEM, binding=binding, role=Role.AUDITOR)
        elif how == "out of the group":
            on_teams.remove_from_group(by=SYSTEM, group=group, user=olga)
        else:
            actions.disable(by=SYSTEM, user=olga)

    with pytest.raises(Conflict, match="last organisation admin who can sign in") as refused:
        lose_the_last()
    assert refused.value.code == "last-org-admin"
    assert org_admins().get() == olga
    actions.use_link(secret=made.secret, password=PHRASE)
    lose_the_last()
    assert org_admins().get().username == "ghost"


def test_the_link_for_an_address_that_no_mail_can_be_written_to_is_shown(olga: User, mailed: None) -> None:
    address = f"a@{'ü' * 60}.de"
    answer = on(olga).post("/people/", {"username": "ivy", "email": address})
    assert answer.status_code == 200
    assert "/welcome/" in answer.content.decode()
    assert "could not be sent" in answer.content.decode()
    assert mail.outbox == []


def test_the_link_that_confirms_an_address_signs_nobody_else_out(nlp: Team, olga: User, mailed: None) -> None:
    vic = member(nlp, Role.VIEWER, "vic", password=PHRASE)
    on(vic).post("/settings/", {"email": "mine@x.example", "password": PHRASE})
    link, browser = mailed_link("/address/"), on(olga)
    assert browser.get(link).status_code == 200
    assert browser.post(link).status_code == 302
    assert browser.get("/settings/").status_code == 200
    vic.refresh_from_db()
    assert vic.email == "mine@x.example"


def test_mailed_links_of_before_somebody_was_put_out_stay_ended_when_they_are_let_in_again(
    nlp: Team, olga: User, mailed: None
) -> None:
    vic = member(nlp, Role.VIEWER, "vic", password=PHRASE)
    on(vic).post("/settings/", {"email": "mine@x.example", "password": PHRASE})
    Client().post("/sign-in/forgotten/", {"email": "vic@example.org"})
    assert mailing.settle()
    reset, confirm = (
        next(word for message in mail.outbox for word in str(message.body).split() if part in word)
        for part in ("/forgotten/", "/address/")
    )
    actions.disable(by=actor(olga), user=vic)
    actions.enable(by=actor(olga), user=vic)
    assert Client().get(reset, follow=True).status_code == 410
    assert Client().post(confirm).status_code == 410
    vic.refresh_from_db()
    assert (vic.email, vic.check_password(PHRASE)) == ("vic@example.org", True)


def token_of(user: User) -> dict[str, str]:
    _, secret = create_token(user=user, name="laptop", scope=Scope.ADMIN, days=9)
    return {"Authorization": f"Bearer {secret}"}


@pytest.mark.parametrize("how", ["by a link", "by mail", "changed and chosen"])
def test_a_new_password_revokes_tokens_and_the_trail_says_so(
    nlp: Team, olga: User, mailed: None, how: str
) -> None:
    vic = member(nlp, Role.VIEWER, "vic", password=PHRASE)
    headers = token_of(vic)
    assert Client().get("/api/v1/me/", headers=headers).status_code == 200
    if how == "by a link":
        actions.use_link(secret=actions.new_link(by=actor(olga), user=vic).secret, password=NEXT)
    elif how == "by mail":
        browser = on(vic)  # signed in or not
        Client().post("/sign-in/forgotten/", {"email": "vic@example.org"})
        there = browser.get(mailed_link("/forgotten/"), follow=True).request["PATH_INFO"]
        assert browser.post(there, {"password1": NEXT, "password2": NEXT}).status_code == 302
    else:
        values = {"oldpassword": PHRASE, "password1": NEXT, "password2": NEXT, "revoke": "on"}
        answer = on(vic).post("/settings/password/", values, follow=True)
        assert "your other sessions and 1 token are ended" in answer.content.decode()
    assert Client().get("/api/v1/me/", headers=headers).status_code == 401
    act = "person.tokens-revoked" if how == "changed and chosen" else "person.password-reset"
    assert AuditEvent.objects.get(action=act).after == {"tokens": 1}


def test_a_changed_password_leaves_tokens_unless_chosen(nlp: Team) -> None:
    vic = member(nlp, Role.VIEWER, "vic", password=PHRASE)
    headers = token_of(vic)
    values = {"oldpassword": PHRASE, "password1": NEXT, "password2": NEXT}
    assert on(vic).post("/settings/password/", values).status_code == 302
    assert Client().get("/api/v1/me/", headers=headers).status_code == 200


def test_nobody_has_very_many_mails_sent(nlp: Team, olga: User, mailed: None) -> None:
    vic = on(member(nlp, Role.VIEWER, "vic", password=PHRASE))
    statuses = [
        vic.post("/settings/", {"email": f"v{n}@x.example", "password": PHRASE}).status_code
        for n in range(12)
    ]
    assert statuses == [302] * 10 + [429] * 2
    assert vic.post("/settings/", {"name": "Vic"}).status_code == 302, "what sends no mail goes on"
    assert mailing.settle()
    assert len(mail.outbox) == 10


def test_one_address_gets_few_mails_whoever_causes_them(nlp: Team, olga: User, mailed: None) -> None:
    statuses = [
        on(member(nlp, Role.VIEWER, f"v{n}", password=PHRASE))
        .post("/settings/", {"email": "victim@x.example", "password": PHRASE})
        .status_code
        for n in range(6)
    ]
    assert statuses == [302] * 5 + [429]
    page = on(olga)
    assert page.post("/people/", {"username": "ivy", "email": "Victim@x.example"}).status_code == 429
    assert not User.objects.filter(username="ivy").exists()
    answer = page.post(
        "/api/v1/people/", {"username": "ivy", "email": "victim@x.example"}, "application/json"
    )
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) > 0
    assert page.post("/people/", {"username": "ivy", "email": "ivy@x.example"}).status_code == 200
    again = [page.post("/people/ivy/link/").status_code for _ in range(5)]
    assert again == [302] * 4 + [429]
    assert mailing.settle()
    assert len(mail.outbox) == 10


MINE = {"email": "mine@x.example", "password": PHRASE}
CHANGED = {"oldpassword": PHRASE, "password1": NEXT, "password2": NEXT}


def reset(user: User, *, by: User) -> None:
    actions.use_link(secret=actions.new_link(by=actor(by), user=user).secret, password=NEXT)


@pytest.mark.parametrize("how", ["changed", "by a link", "by mail", "others ended", "all ended"])
def test_a_pending_address_ends_with_the_password_or_the_sessions_of_before(
    nlp: Team, olga: User, mailed: None, how: str
) -> None:
    vic = member(nlp, Role.VIEWER, "vic", password=PHRASE)
    assert on(vic).post("/settings/", MINE).status_code == 302
    confirm = mailed_link("/address/")
    mail.outbox.clear()
    if how == "changed":
        assert on(vic).post("/settings/password/", CHANGED).status_code == 302
    elif how == "by a link":
        reset(vic, by=olga)
    elif how == "by mail":
        Client().post("/sign-in/forgotten/", {"email": "vic@example.org"})
        assert set_by(mailed_link("/forgotten/"), NEXT) == 302
    elif how == "others ended":
        assert on(vic).post("/settings/sessions/end-others/").status_code == 302
    else:
        assert on(olga).delete("/api/v1/people/vic/sessions/").status_code == 200
    assert Client().post(confirm).status_code == 410
    vic.refresh_from_db()
    assert vic.email == "vic@example.org"


def test_another_address_takes_the_present_password_within_the_bound_of_tries(
    nlp: Team, mailed: None
) -> None:
    vic = member(nlp, Role.VIEWER, "vic", password=PHRASE)
    client = on(vic)
    assert 'autocomplete="current-password"' in client.get("/settings/").content.decode()
    answer = client.post("/settings/", {"email": "mine@x.example"})
    assert answer.status_code == 422
    assert "Give your present password to change the e-mail address." in answer.content.decode()
    answer = client.post("/settings/", {**MINE, "password": "wrong"})
    assert (answer.status_code, "This is not your password." in answer.content.decode()) == (422, True)
    assert AuditEvent.objects.filter(action="person.password-refused", actor="vic").count() == 1
    wrong = [
        client.post("/settings/password/", {**CHANGED, "oldpassword": "x"}).status_code for _ in range(9)
    ]
    assert wrong == [422] * 9
    assert client.post("/settings/", MINE).status_code == 429, "the tries of both are counted together"
    assert client.post("/settings/", {"name": "Vic", "email": vic.email}).status_code == 302
    assert mailing.settle()
    assert mail.outbox == []
    vic.set_unusable_password()
    vic.save()
    answer = on(vic).post("/settings/", MINE)
    assert answer.status_code == 422
    assert "ask an organisation admin to change the address" in answer.content.decode()
    assert not vic.emailaddress_set.exists()  # type: ignore[attr-defined]


def test_an_address_is_not_asked_for_by_who_was_signed_out_meanwhile(
    nlp: Team, olga: User, mailed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    vic = member(nlp, Role.VIEWER, "vic", password=PHRASE)
    change = actions.change

    def meanwhile(**given: object) -> User:
        reset(vic, by=olga)
        return change(**given)  # type: ignore[arg-type]

    monkeypatch.setattr(actions, "change", meanwhile)
    assert on(vic).post("/settings/", MINE).status_code == 422
    assert not vic.emailaddress_set.exists()  # type: ignore[attr-defined]


def test_the_address_of_before_is_told_that_another_took_its_place(
    nlp: Team, olga: User, mailed: None
) -> None:
    vic = member(nlp, Role.VIEWER, "vic", password=PHRASE)
    on(vic).post("/settings/", MINE)
    assert Client().post(mailed_link("/address/")).status_code == 302
    page = on(olga)
    assert page.post("/people/vic/", {"name": "", "email": "two@x.example"}).status_code == 302
    for email in ("three@x.example", "three@x.example"):
        answer = page.patch("/api/v1/people/vic/", {"email": email}, "application/json")
        assert answer.status_code == 200
    actions.invite(by=actor(olga), username="ivy", email="mistyped@stranger.example")
    assert page.post("/people/ivy/", {"name": "", "email": "ivy@x.example"}).status_code == 302
    assert mailing.settle()
    told = [message for message in mail.outbox if message.subject.startswith("Another e-mail address")]
    assert [message.to for message in told] == [["vic@example.org"], ["mine@x.example"], ["two@x.example"]]
    assert "Your account vic at " in str(told[0].body)


@pytest.mark.parametrize("how", ["role taken", "role changed", "out of the group", "lead no more"])
def test_a_link_that_was_shown_ends_with_the_role_of_its_maker(
    acme: Team, nlp: Team, olga: User, how: str
) -> None:
    role, team = (Role.LEAD, nlp) if how == "lead no more" else (Role.ORG_ADMIN, acme)
    otto = member(team, Role.VIEWER if how == "out of the group" else role, "otto")
    binding, group = Binding.objects.get(user=otto), Group.objects.create(name="ops")
    if how == "out of the group":
        Binding.objects.create(group=group, team=acme, role=Role.ORG_ADMIN)
        group.user_set.add(otto)
    places = {"team": nlp, "role": Role.VIEWER}
    shown = actions.invite(by=actor(otto), username="ivy", **places)  # type: ignore[arg-type]
    joe = {"username": "joe", "email": "joe@x.example", **places}
    sent = actions.invite(by=actor(otto), **joe, mailed=True)  # type: ignore[arg-type]
    kim = member(nlp, Role.VIEWER, "kim")
    console = actions.new_link(by=SYSTEM, user=kim)
    links = [shown] if how == "lead no more" else [shown, actions.new_link(by=actor(otto), user=olga)]
    for each in links:
        actions.find_link(each.secret)
    if how == "role changed":
        on_teams.change_role(by=actor(olga), binding=binding, role=Role.VIEWER)
    elif how == "out of the group":
        on_teams.remove_from_group(by=actor(olga), group=group, user=otto)
    else:
        on_teams.remove_member(by=actor(olga), binding=binding)
    for each in links:
        assert is_of_no_use(each.secret)
        assert Client().get(f"/welcome/{each.secret}/").status_code == 410
    actions.use_link(secret=sent.secret, password=NEXT)
    actions.use_link(secret=console.secret, password=NEXT)


def disable_and_enable(user: User, *, by: User) -> None:
    actions.disable(by=actor(by), user=user)
    actions.enable(by=actor(by), user=user)


@pytest.mark.parametrize("ends", [reset, disable_and_enable])
@pytest.mark.parametrize("door", ["token", "password", "page"])
def test_no_token_is_made_by_who_was_signed_out_meanwhile(
    nlp: Team, olga: User, monkeypatch: pytest.MonkeyPatch, door: str, ends: Callable[..., None]
) -> None:
    vic = member(nlp, Role.VIEWER, "vic", password=PHRASE)
    client, headers, new = on(vic), token_of(vic), ApiToken.new_secret

    def meanwhile() -> str:
        ends(vic, by=olga)
        return new()

    monkeypatch.setattr(ApiToken, "new_secret", staticmethod(meanwhile))
    values = {"name": "again", "scope": "admin"}
    if door == "token":
        answer = Client().post("/api/v1/tokens/", values, "application/json", headers=headers)
    elif door == "password":
        login = {**values, "username": "vic", "password": PHRASE}
        answer = Client().post("/api/v1/login/", login, "application/json")
    else:
        answer = client.post("/tokens/", {**values, "expires_in_days": 9})
    assert answer.status_code == (422 if door == "page" else 409)
    assert "meanwhile" in answer.content.decode()
    assert not vic.api_tokens.filter(name="again").exists()


def test_no_token_is_made_with_one_that_was_revoked_meanwhile(
    nlp: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    vic = member(nlp, Role.VIEWER, "vic", password=PHRASE)
    headers, new = token_of(vic), ApiToken.new_secret

    def meanwhile() -> str:
        values = {**CHANGED, "revoke": "on"}
        assert on(vic).post("/settings/password/", values).status_code == 302
        User.objects.filter(pk=vic.pk).update(password=vic.password)  # the token alone tells
        return new()

    monkeypatch.setattr(ApiToken, "new_secret", staticmethod(meanwhile))
    answer = Client().post(
        "/api/v1/tokens/", {"name": "again", "scope": "admin"}, "application/json", headers=headers
    )
    assert answer.status_code == 409
    assert "The token was revoked meanwhile" in answer.json()["detail"]
    assert not vic.api_tokens.filter(revoked_at=None).exists()


def test_one_person_has_so_many_valid_tokens_and_no_more(nlp: Team) -> None:
    vic = member(nlp, Role.VIEWER, "vic", password=PHRASE)
    ApiToken.objects.bulk_create(
        ApiToken(user=vic, name="t", token_hash=str(n), prefix="chb", scope=Scope.READ) for n in range(100)
    )
    answer = on(vic).post("/tokens/", {"name": "more", "scope": "read", "expires_in_days": 9})
    assert (answer.status_code, answer["Retry-After"]) == (429, "60")
    assert "You have 100 valid tokens, the most that are allowed" in answer.content.decode()
    with pytest.raises(Exceeded):
        token_of(vic)
    ApiToken.objects.filter(token_hash="7").update(revoked_at="2026-01-01T00:00:00Z")
    token_of(vic)


@pytest.mark.parametrize("ends", [reset, disable_and_enable])
@pytest.mark.parametrize("path", ["/settings/sessions/end-others/", "/settings/password/"])
def test_a_session_that_was_ended_does_not_go_on_by_a_request_under_way(
    nlp: Team, olga: User, monkeypatch: pytest.MonkeyPatch, path: str, ends: Callable[..., None]
) -> None:
    vic = member(nlp, Role.VIEWER, "vic", password=PHRASE)
    thief = on(vic)
    thief.get("/settings/")
    module, name = (actions, "end_sessions") if "sessions" in path else (views_sign_in, "bound_tries")
    act = getattr(module, name)

    def meanwhile(*args: object, **given: object) -> object:
        monkeypatch.setattr(module, name, act)
        ends(vic, by=olga)
        return act(*args, **given)

    monkeypatch.setattr(module, name, meanwhile)
    assert thief.post(path, CHANGED).status_code in {400, 409}
    assert thief.get("/settings/").status_code == 302
    vic.refresh_from_db()
    assert vic.check_password(NEXT if ends is reset else PHRASE)
