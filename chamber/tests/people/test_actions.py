"""Letting people in and putting them out: who may, what it ends, what stays."""

from datetime import timedelta

import pytest
from allauth.usersessions.models import UserSession
from django.db import IntegrityError, transaction
from django.test import Client
from django.utils import timezone
from pytest_django.fixtures import Settings

from chamber.errors import Conflict, NotAllowed, Refusal
from chamber.models import AccountLink, ApiToken, LinkPurpose, Scope, User
from chamber.people import actions
from chamber.people.leaving import Leaving
from chamber.tokens import create_token
from teams.models import AuditEvent, Binding, Role, Team
from teams.tests.factories import actor, bind, make_org, make_team, make_user, member
from workloads.models import Event, Status, Workload
from workloads.tests.factories import make_workload

pytestmark = pytest.mark.django_db
PHRASE = "rotor glade mosaic 41"


@pytest.fixture(autouse=True)
def _no_ring(settings: Settings) -> None:
    settings.CHAMBER_RING = "builtins.list"


@pytest.fixture
def acme() -> Team:
    return make_org("Acme")


@pytest.fixture
def nlp(acme: Team) -> Team:
    return make_team(acme, "NLP")


@pytest.fixture
def olga(acme: Team) -> User:
    return member(acme, Role.ORG_ADMIN, "olga")


@pytest.fixture
def lea(nlp: Team) -> User:
    return member(nlp, Role.LEAD, "lea")


def test_an_invited_person_cannot_sign_in_before_the_link_is_used_and_can_after(
    olga: User, nlp: Team
) -> None:
    made = actions.invite(
        by=actor(olga),
        username="ada",
        name="Ada Lovelace",
        email="ada@acme.example",
        team=nlp,
        role=Role.RESEARCHER,
    )
    ada = User.objects.get(username="ada")
    assert str(ada) == "Ada Lovelace"
    assert not ada.has_usable_password()
    assert list(Binding.objects.filter(user=ada).values_list("team", "role")) == [(nlp.pk, Role.RESEARCHER)]
    assert made.secret not in str(list(AccountLink.objects.values()))
    actions.use_link(secret=made.secret, password=PHRASE)
    ada.refresh_from_db()
    assert ada.check_password(PHRASE)
    told = list(AuditEvent.objects.order_by("at").values_list("action", "actor"))
    assert told == [("person.invited", "olga"), ("member.added", "olga"), ("person.joined", "ada")]


def test_a_link_is_good_once(olga: User) -> None:
    made = actions.invite(by=actor(olga), username="ada")
    actions.use_link(secret=made.secret, password=PHRASE)
    with pytest.raises(Refusal, match="This link was used") as refused:
        actions.use_link(secret=made.secret, password="another glade rotor 7")
    assert refused.value.status == 410
    assert User.objects.get(username="ada").check_password(PHRASE)


@pytest.mark.parametrize("why", ["expired", "replaced", "disabled", "made up"])
def test_a_link_of_no_use_sets_nothing(olga: User, why: str) -> None:
    made = actions.invite(by=actor(olga), username="ada")
    ada, secret = made.link.user, made.secret
    if why == "expired":
        AccountLink.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    elif why == "replaced":
        actions.new_link(by=actor(olga), user=ada)
    elif why == "disabled":
        actions.disable(by=actor(olga), user=ada)
    else:
        secret = "\ud800\x00made up"
    with pytest.raises(Refusal) as refused:
        actions.use_link(secret=secret, password=PHRASE)
    assert refused.value.status == 410
    ada.refresh_from_db()
    assert not ada.has_usable_password()


def test_a_weak_password_leaves_the_link_good(olga: User) -> None:
    made = actions.invite(by=actor(olga), username="ada")
    with pytest.raises(Refusal, match="at least 12 characters"):
        actions.use_link(secret=made.secret, password="short")
    actions.use_link(secret=made.secret, password=PHRASE)


def test_the_database_refuses_a_second_open_link_of_a_person(olga: User) -> None:
    link = actions.invite(by=actor(olga), username="ada").link
    with pytest.raises(IntegrityError), transaction.atomic():
        AccountLink.objects.create(
            user=link.user, purpose=LinkPurpose.RESET, token_hash="x", expires_at=link.expires_at
        )


def test_a_lead_invites_below_and_gives_no_role_that_is_above(lea: User, nlp: Team, acme: Team) -> None:
    speech = make_team(nlp, "Speech")
    actions.invite(by=actor(lea), username="ada", team=speech, role=Role.LEAD)
    for team, role in ((None, None), (nlp, Role.ADMIN), (acme, Role.VIEWER)):
        with pytest.raises(Refusal) as refused:
            actions.invite(by=actor(lea), username="bob", team=team, role=role)
        assert refused.value.status in {403, 404}
    assert not User.objects.filter(username="bob").exists(), "nothing is left half done"


def test_a_researcher_invites_nobody(nlp: Team) -> None:
    rosa = member(nlp, Role.RESEARCHER, "rosa")
    with pytest.raises(NotAllowed):
        actions.invite(by=actor(rosa), username="ada", team=nlp, role=Role.VIEWER)


def test_a_lead_gets_a_link_only_of_the_invited_whose_every_role_the_lead_could_give(
    lea: User, nlp: Team, acme: Team
) -> None:
    ada = actions.invite(by=actor(lea), username="ada", team=nlp, role=Role.VIEWER).link.user
    made = actions.new_link(by=actor(lea), user=ada)
    bind(ada, acme, Role.AUDITOR)
    with pytest.raises(NotAllowed):
        actions.new_link(by=actor(lea), user=ada)
    Binding.objects.filter(user=ada, role=Role.AUDITOR).delete()
    actions.use_link(secret=made.secret, password=PHRASE)
    with pytest.raises(NotAllowed):
        actions.new_link(by=actor(lea), user=ada)


@pytest.mark.parametrize(
    ("values", "field", "says"),
    [
        ({"username": "Ada L"}, "username", "'Ada L' is no user name"),
        ({"username": "kubectl@x.y"}, "username", "is no user name"),
        ({"username": "а" * 3}, "username", "is no user name"),  # Cyrillic
        ({"username": "OLGA"}, "username", "is no user name"),
        ({"username": "olga"}, "username", "already"),
        ({"username": "ada", "email": "nowhere"}, "email", "'nowhere' is no e-mail address"),
        ({"username": "ada", "email": "a@\u2100.de"}, "email", "that stand for others"),
        ({"username": "ada", "email": '"a\x01b"@x.org'}, "email", "cannot be seen"),
        ({"username": "Ada L", "email": "nowhere"}, "email", "'nowhere' is no e-mail address"),
        ({"username": "Ada L", "email": "nowhere"}, "username", "'Ada L' is no user name"),
        ({"username": "ada", "email": "OLGA@example.org"}, "email", "already"),
        ({"username": "ada", "name": "Ada\u202eaeg"}, "name", "U+202E"),
        *(
            (
                {"username": "ada", "name": f"Ol{unseen}ga"},
                "name",
                f"U+{ord(unseen):04X}, which cannot be seen",
            )
            for unseen in "\u034f\u115f\u1160\u180b\u2800\u3164\ufe0f\uffa0\U000e0101"
        ),
        ({"username": "ada", "name": "Ada \u0301L"}, "name", "the mark U+0301 without a letter"),
        ({"username": "ada", "name": "x" * 151}, "name", "at most 150"),
        ({"username": "ada", "mailed": True}, "email", "Give an e-mail address"),
        ({"username": "ada", "role": Role.VIEWER}, "team", "or neither"),
    ],
)
def test_bad_values_are_refused_in_a_sentence_and_leave_nothing(
    olga: User, values: dict[str, object], field: str, says: str
) -> None:
    with pytest.raises(Refusal) as refused:
        actions.invite(by=actor(olga), **values)  # type: ignore[arg-type]
    assert says in refused.value.fields[field]
    assert User.objects.count() == 1
    assert not AuditEvent.objects.exists()


def test_who_is_disabled_has_no_session_token_or_link_any_more_and_none_after_being_enabled(
    olga: User, client: Client, nlp: Team
) -> None:
    ada = member(nlp, Role.RESEARCHER, "ada", password=PHRASE)
    assert client.post("/sign-in/", {"login": "ada", "password": PHRASE}).status_code == 302
    stray = Client()  # of a session that no table tells of
    stray.force_login(ada)
    token, secret = create_token(user=ada, name="laptop", scope=Scope.READ, days=9)
    actions.new_link(by=actor(olga), user=ada)

    ended = actions.disable(by=actor(olga), user=ada)

    assert ended == {"sessions": 1, "tokens": 1, "workloads": 0}
    assert not UserSession.objects.exists()
    assert not AccountLink.objects.filter(used_at=None).exists()
    assert ApiToken.objects.get(pk=token.pk).revoked_at is not None
    headers = {"Authorization": f"Bearer {secret}"}
    for _ in range(2):
        assert client.get("/people/").status_code == 302
        assert stray.get("/tokens/").status_code == 302
        assert Client().get("/api/v1/me/", headers=headers).status_code == 401
        if not User.objects.get(pk=ada.pk).is_active:
            assert Client().post("/sign-in/", {"login": "ada", "password": PHRASE}).status_code == 422
            actions.enable(by=actor(olga), user=ada)
    assert Client().post("/sign-in/", {"login": "ada", "password": PHRASE}).status_code == 302
    assert Binding.objects.filter(user=ada, team=nlp).exists()


@pytest.mark.parametrize("leaving", [Leaving.LEAVE, Leaving.CANCEL, Leaving.HAND_OVER])
def test_what_becomes_of_the_workloads_is_chosen(olga: User, nlp: Team, leaving: Leaving) -> None:
    ada, bob = member(nlp, Role.RESEARCHER, "ada"), member(nlp, Role.RESEARCHER, "bob")
    waits = make_workload(nlp, ada, slug="waits")
    over = make_workload(
        nlp, ada, slug="over", status=Status.CANCELLED, finished_at=timezone.now(), reason_code="cancelled"
    )
    heir = bob if leaving is Leaving.HAND_OVER else None
    assert actions.disable(by=actor(olga), user=ada, workloads=leaving, heir=heir)["workloads"] == 1
    waits.refresh_from_db()
    over.refresh_from_db()
    assert over.owner == ada, "history keeps the name"
    assert waits.owner == (bob if heir else ada)
    assert waits.status == (Status.CANCELLED if leaving is Leaving.CANCEL else Status.PENDING)
    told = list(Event.objects.filter(workload=waits, user=olga).values_list("message", flat=True))
    assert told == {Leaving.LEAVE: [], Leaving.CANCEL: ["Cancelled."]}.get(
        leaving, ["Handed over from ada to bob."]
    )


def test_nobody_takes_over_what_they_could_not_submit_and_then_nothing_is_done(olga: User, nlp: Team) -> None:
    ada, vera = member(nlp, Role.RESEARCHER, "ada"), member(nlp, Role.VIEWER, "vera")
    make_workload(nlp, ada)
    for heir, says in ((vera, "vera may not submit workloads in NLP"), (ada, "ada cannot take over")):
        with pytest.raises(Refusal, match=says):
            actions.disable(by=actor(olga), user=ada, workloads=Leaving.HAND_OVER, heir=heir)
    with pytest.raises(Refusal, match="Name whom"):
        actions.disable(by=actor(olga), user=ada, workloads=Leaving.HAND_OVER)
    ada.refresh_from_db()
    assert ada.is_active
    assert Workload.objects.get().owner == ada


def test_nobody_disables_themselves_and_no_lead_anybody(olga: User, lea: User) -> None:
    with pytest.raises(Conflict, match="themselves"):
        actions.disable(by=actor(olga), user=olga)
    with pytest.raises(NotAllowed):
        actions.disable(by=actor(lea), user=olga)


def test_of_two_admins_who_put_each_other_out_the_second_is_refused(olga: User, acme: Team) -> None:
    otto = member(acme, Role.ORG_ADMIN, "otto")
    earlier = User.objects.get(pk=otto.pk)
    actions.disable(by=actor(olga), user=otto)
    with pytest.raises(NotAllowed):
        actions.disable(by=actor(earlier), user=olga)
    olga.refresh_from_db()
    assert olga.is_active


def test_the_last_organisation_admin_stays(olga: User) -> None:
    from teams.actors import Actor

    with pytest.raises(Conflict, match="last organisation admin"):
        actions.disable(by=Actor.system("directory"), user=olga)


def test_the_owner_of_a_namespace_is_nobody_to_enable(olga: User) -> None:
    owner = make_user("kubectl@jobs.east", is_active=False)
    with pytest.raises(Conflict, match="no account"):
        actions.enable(by=actor(olga), user=owner)


def test_a_new_address_of_an_admins_is_not_confirmed_by_anybody(olga: User) -> None:
    made = actions.invite(by=actor(olga), username="ada", email="ada@acme.example", mailed=True)
    ada = actions.use_link(secret=made.secret, password=PHRASE)
    assert ada.emailaddress_set.get().verified  # type: ignore[attr-defined]
    actions.change(by=actor(olga), user=ada, email="ada@other.example")
    assert not ada.emailaddress_set.exists()  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["anonymous", "system", "me", "new"])
def test_a_name_that_means_no_person_is_nobodys(olga: User, nlp: Team, name: str) -> None:
    with pytest.raises(Refusal, match="Chamber itself uses the names anonymous, chamber, console"):
        actions.invite(by=actor(olga), username=name, name="", email="", team=nlp, role=Role.RESEARCHER)
    assert not User.objects.filter(username=name).exists()
