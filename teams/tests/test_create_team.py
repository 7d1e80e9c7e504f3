"""create_team and create_organisation."""

import pytest

from chamber import live
from chamber.errors import Conflict, NotAllowed, NotVisible, Refusal
from teams.actions import archive_team, create_organisation, create_team
from teams.actors import Actor
from teams.models import AuditEvent, Binding, Role, Team
from teams.tests.conftest import Acme
from teams.tests.factories import actor, make_team, make_user


def test_a_new_team_lies_below_its_parent(acme: Acme) -> None:
    team = create_team(by=actor(acme.admin), parent=acme.nlp, name="Speech", bursting_priority=4)
    assert team.path == f"{acme.nlp.path}{team.pk.hex}/"
    assert (team.depth, team.slug, team.bursting_priority) == (3, "speech", 4)


def test_it_is_in_the_trail_and_announced(
    acme: Acme, django_capture_on_commit_callbacks: pytest.FixtureRequest
) -> None:
    known = live.version("teams")
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
        create_team(by=actor(acme.admin), parent=acme.nlp, name="Speech")
    event = AuditEvent.objects.get()
    assert event.action == "team.created"
    assert event.after["parent"] == "nlp"
    assert live.flush(60)
    assert live.version("teams") > known


def test_a_taken_name_gets_a_slug_with_its_parents(acme: Acme) -> None:
    team = create_team(by=actor(acme.org_admin), parent=acme.production, name="NLP")
    another = create_team(by=actor(acme.org_admin), parent=acme.production, name="NLP")
    assert (team.slug, another.slug) == ("production-nlp", "nlp-2")


def test_a_name_that_no_address_can_hold_gets_a_slug_all_the_same(acme: Acme) -> None:
    assert create_team(by=actor(acme.org_admin), parent=acme.root, name="研究").slug == "team"


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"name": "  "}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"name": "X", "slug": "Not A Slug"}, "slug"),
        ({"name": "X", "slug": "new"}, "slug"),
        ({"name": "X", "slug": "nlp"}, "slug"),
        ({"name": "X", "bursting_priority": 11}, "bursting_priority"),
        ({"name": "X", "burst_limit_percent": -5}, "burst_limit_percent"),
        ({"name": "X", "maximum_milli": -1}, "maximum"),
    ],
)
def test_values_that_cannot_be_are_refused_beside_their_field(
    acme: Acme, values: dict[str, object], field: str
) -> None:
    with pytest.raises(Refusal) as refusal:
        create_team(by=actor(acme.admin), parent=acme.nlp, **values)  # type: ignore[arg-type]
    assert list(refusal.value.fields) == [field]


def test_a_lead_makes_no_teams(acme: Acme) -> None:
    with pytest.raises(NotAllowed):
        create_team(by=actor(acme.lead), parent=acme.nlp, name="Speech")


def test_for_an_outsider_there_is_no_such_parent(acme: Acme) -> None:
    with pytest.raises(NotVisible):
        create_team(by=actor(acme.outsider), parent=acme.nlp, name="Speech")


def test_an_archived_team_takes_no_new_ones(acme: Acme) -> None:
    archive_team(by=actor(acme.admin), team=acme.nlp)
    with pytest.raises(Conflict, match="NLP is archived"):
        create_team(by=actor(acme.admin), parent=acme.nlp, name="Speech")


def test_the_tree_has_a_last_level(acme: Acme) -> None:
    team = acme.root
    for _ in range(31):
        team = make_team(team)
    with pytest.raises(Refusal, match="at most 32 levels"):
        create_team(by=actor(acme.org_admin), parent=team, name="Too deep")


@pytest.mark.django_db
def test_a_superuser_sets_up_the_organisation_and_is_its_admin() -> None:
    user = make_user("root", is_superuser=True)
    root = create_organisation(by=actor(user), name="Acme")
    assert (root.depth, root.slug) == (0, "acme")
    assert Binding.objects.get().role == Role.ORG_ADMIN


@pytest.mark.django_db
def test_nobody_else_sets_it_up() -> None:
    with pytest.raises(NotAllowed):
        create_organisation(by=actor(make_user()), name="Acme")
    assert not Team.objects.exists()


def test_there_is_one_organisation(acme: Acme) -> None:
    with pytest.raises(Conflict, match="Acme"):
        create_organisation(by=Actor.system("demo"), name="Other")
