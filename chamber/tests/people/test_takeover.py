"""What a link, an address or a session is not good for: getting at the account of somebody else."""


import pytest
from django.core import mail
from django.core.cache import cache
from django.test import Client
from pytest_django.fixtures import Settings

from chamber import mailing
from chamber.errors import Refusal
from chamber.models import AccountLink, User
from chamber.people import actions
from teams import actions as on_teams
from teams.models import Binding, Role, Team
from teams.tests.factories import actor, make_org, make_team, member

pytestmark = pytest.mark.django_db
PHRASE = "rotor glade mosaic 41"
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
def mailed(settings: Settings) -> None:
    settings.MAIL = True


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


def test_an_invitation_is_of_no_use_once_its_person_has_set_a_password_otherwise(
    lea: User, nlp: Team, mailed: None
) -> None:
    made = actions.invite(by=actor(lea), username="ivy", email="ivy@acme.example", team=nlp, role=Role.VIEWER)
    Client().post("/sign-in/forgotten/", {"email": "ivy@acme.example"})
    assert set_by(mailed_link("/forgotten/"), PHRASE) == 302
    assert not AccountLink.objects.filter(used_at=None).exists()
    assert is_of_no_use(made.secret)


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
