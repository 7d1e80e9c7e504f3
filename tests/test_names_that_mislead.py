"""Names that could be taken for another: refused at each door for all but what has one of before the rule."""

from typing import Any, cast

import pytest
from pydantic import ValidationError

from agentlink.protocol import InvalidMessage, from_agent
from chamber.errors import Refusal
from chamber.models import Scope
from chamber.oidc.claims import names_of
from chamber.people import actions as people
from chamber.tokens import create_token
from teams import actions
from teams.actors import Actor
from teams.models import Team
from teams.tests.factories import make_org, make_pool, make_team, make_user
from teams.values import TeamChanges
from workloads.requests import SubmissionRequest

SYSTEM = Actor.system("test")
OLD = "nlp\u200b"


def edit(team: Team, **changes: Any) -> None:
    actions.edit_team(by=SYSTEM, team=team, version=team.version, changes=cast("TeamChanges", changes))


@pytest.mark.parametrize(
    ("misleading", "told"),
    [
        ("nl\u0440", "looks like the Latin 'p'"),
        ("\u217faria", "looks like 'm'"),
        ("\uff41da", "looks like 'a'"),
    ],
)
def test_teams_pools_people_tokens_and_workloads_have_no_such_name(
    db: None, misleading: str, told: str
) -> None:
    org, user, pool = make_org("Acme"), make_user("ada"), make_pool("Main")
    for act in (
        lambda: actions.create_team(by=SYSTEM, parent=org, name=misleading),
        lambda: edit(org, name=misleading),
        lambda: actions.create_pool(by=SYSTEM, values={"name": misleading, "slug": "x"}),
        lambda: actions.edit_pool(by=SYSTEM, pool=pool, version=pool.version, changes={"name": misleading}),
        lambda: people.change(by=SYSTEM, user=user, name=misleading),
        lambda: create_token(user=user, name=misleading, scope=Scope.READ, days=1),
    ):
        with pytest.raises(Refusal) as refused:
            act()
        assert told in " ".join([refused.value.message, *refused.value.fields.values()])
    with pytest.raises(ValidationError, match=told):
        SubmissionRequest.model_validate({"name": misleading, "team": "acme", "image": "x"})


def test_what_has_one_of_before_the_rule_is_edited_all_the_same(db: None) -> None:
    org, user, pool = make_org("Acme"), make_user("ada"), make_pool("Main")
    team = make_team(org, "NLP")
    type(team).objects.filter(pk=team.pk).update(name=OLD)
    type(pool).objects.filter(pk=pool.pk).update(name=OLD)
    type(user).objects.filter(pk=user.pk).update(first_name="", last_name=OLD)
    for row in (team, pool, user):
        row.refresh_from_db()
    edit(team, name=OLD, bursting_priority=3)
    actions.edit_pool(by=SYSTEM, pool=pool, version=pool.version, changes={"name": OLD, "order": 4})
    people.change(by=SYSTEM, user=user, name=OLD, email="ada@example.org")
    for row in (team, pool, user):
        row.refresh_from_db()
    assert (team.name, team.bursting_priority) == (OLD, 3)
    assert (pool.name, pool.order) == (OLD, 4)
    assert (user.last_name, user.email) == (OLD, "ada@example.org")


@pytest.mark.parametrize(
    ("claims", "names"),
    [
        ({"name": "Ada L\u043evelace"}, ("", "")),
        ({"given_name": "\u0440aul", "family_name": "Noyce"}, ("", "")),
        ({"name": "Ada\u200b Lovelace"}, ("Ada", "Lovelace")),
    ],
)
def test_of_a_provider_s_name_is_kept_what_can_be_seen_or_nothing(
    claims: dict[str, str], names: tuple[str, str]
) -> None:
    assert names_of(claims) == names


@pytest.mark.parametrize("name", ["n\u0430", "\u217fn", "n1\u202e", "n 1", "n\x001"])
def test_a_node_has_no_name_but_of_visible_ascii(name: str) -> None:
    said = '{"type": "inventory", "generation": 1, "part": 0, "last": true, "nodes": [{"name": "%s"}]}'
    assert not isinstance(from_agent(said % "gpu-01.example.org"), InvalidMessage)
    refused = from_agent(said % name.encode("unicode_escape").decode().replace("\\x", "\\u00"))
    assert isinstance(refused, InvalidMessage)
    assert f"U+{next(ord(each) for each in name if not '!' <= each <= '~'):04X}" in refused.message
