"""Two at once: real threads, each with a connection of its own."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connections

from chamber.errors import Refusal
from chamber.models import AccountLink, User
from chamber.people import actions
from teams.models import AuditEvent, Role
from teams.tests.factories import actor, make_org, member

pytestmark = pytest.mark.django_db(transaction=True)
PHRASES = ("rotor glade mosaic 41", "harbour lantern quilt 8")


def at_once(*acts: Callable[[], object]) -> list[object]:
    """Start all acts together; return what each returned or raised as a refusal."""
    ready = Barrier(len(acts))

    def run(act: Callable[[], object]) -> object:
        try:
            ready.wait()
            return act()
        except Refusal as refusal:
            return refusal
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(acts)) as threads:
        return list(threads.map(run, acts))


@pytest.fixture
def olga() -> User:
    return member(make_org("Acme"), Role.ORG_ADMIN, "olga")


def test_of_two_who_use_a_link_at_once_one_does(olga: User) -> None:
    secret = actions.invite(by=actor(olga), username="ada").secret
    results = at_once(*(lambda each=each: actions.use_link(secret=secret, password=each) for each in PHRASES))
    [done] = [result for result in results if isinstance(result, User)]
    [refused] = [result for result in results if isinstance(result, Refusal)]
    assert refused.status == 410
    ada = User.objects.get(pk=done.pk)
    assert ada.check_password(PHRASES[results.index(done)])
    assert AuditEvent.objects.filter(action="person.joined").count() == 1


def test_of_two_admins_who_put_each_other_out_one_is_left(olga: User) -> None:
    otto = member(olga.bindings.get().team, Role.ORG_ADMIN, "otto")
    results = at_once(
        lambda: actions.disable(by=actor(olga), user=otto),
        lambda: actions.disable(by=actor(otto), user=olga),
    )
    assert sum(isinstance(result, Refusal) for result in results) == 1
    assert User.objects.filter(is_active=True).count() == 1


def test_of_two_new_links_at_once_one_is_good(olga: User) -> None:
    ada = actions.invite(by=actor(olga), username="ada").link.user
    results = at_once(*(lambda: actions.new_link(by=actor(olga), user=ada) for _ in range(2)))
    assert not [result for result in results if isinstance(result, Refusal)]
    assert AccountLink.objects.filter(user=ada, used_at=None).count() == 1


def test_of_two_who_invite_the_same_name_at_once_one_does(olga: User) -> None:
    results = at_once(*(lambda: actions.invite(by=actor(olga), username="ada") for _ in range(2)))
    assert sorted(getattr(result, "status", 201) for result in results) == [201, 409]
    assert User.objects.filter(username="ada").count() == 1
