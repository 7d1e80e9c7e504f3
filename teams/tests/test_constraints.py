"""What the database itself refuses, tried with raw SQL: no code of ours stands between."""

import pytest
from django.db import IntegrityError, connection, transaction

from teams.actors import Actor
from teams.audit import record
from teams.models import Binding, Role, Share, Team
from teams.tests.conftest import Acme


def _refused(sql: str, *values: str | int | None) -> str:
    """Return the database's answer to a statement that it must refuse."""
    with pytest.raises(IntegrityError) as error, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql, values)
    return str(error.value).replace("CHECK", "check")


def _hex(row: Team | Share | Binding) -> str:
    return row.pk.hex


COPY_TEAM = """
    INSERT INTO teams_team (id, slug, name, parent_id, path, depth, bursting_priority, created_at, version)
    SELECT %s, %s, name, parent_id, %s, depth, 1, created_at, 1 FROM teams_team WHERE id = %s
"""


def test_a_second_root(acme: Acme) -> None:
    assert "depth" in _refused(COPY_TEAM, "f" * 32, "other", "/x/", _hex(acme.root))


def test_a_slug_twice(acme: Acme) -> None:
    assert "slug" in _refused(COPY_TEAM, "f" * 32, "nlp", "/x/", _hex(acme.vision))


def test_a_path_twice(acme: Acme) -> None:
    assert "path" in _refused(COPY_TEAM, "f" * 32, "other", acme.nlp.path, _hex(acme.vision))


@pytest.mark.parametrize(
    ("column", "value", "constraint"),
    [
        ("bursting_priority", 0, "team_weight_1_to_10"),
        ("bursting_priority", 11, "team_weight_1_to_10"),
        ("burst_limit_percent", -1, "burst_limit"),
        ("maximum_milli", -1, "maximum"),
        ("depth", 0, "team_root_has_no_parent"),
        ("parent_id", None, "team_root_has_no_parent"),
    ],
)
def test_a_team_that_cannot_be(acme: Acme, column: str, value: str | int | None, constraint: str) -> None:
    assert constraint in _refused(f"UPDATE teams_team SET {column} = %s WHERE id = %s", value, _hex(acme.nlp))


def test_a_team_as_its_own_parent(acme: Acme) -> None:
    nlp = _hex(acme.nlp)
    assert "team_not_its_own_parent" in _refused(
        "UPDATE teams_team SET parent_id = %s WHERE id = %s", nlp, nlp
    )


@pytest.mark.parametrize("column", ["reservation_milli", "maximum_milli"])
def test_a_negative_share(acme: Acme, column: str) -> None:
    share = Share.objects.get(team=acme.nlp)
    assert "check constraint" in _refused(f"UPDATE teams_share SET {column} = -1 WHERE id = %s", _hex(share))


def test_a_share_twice(acme: Acme) -> None:
    vision = Share.objects.get(team=acme.vision)
    sql = "UPDATE teams_share SET team_id = %s WHERE id = %s"
    assert "team_id" in _refused(sql, _hex(acme.nlp), _hex(vision))


def test_a_pools_slug_twice(acme: Acme) -> None:
    sql = """
        INSERT INTO teams_pool (id, slug, name, "order", node_selector, topology, policy, paused, created_at, version)
        SELECT %s, slug, name, "order", node_selector, topology, policy, paused, created_at, 1 FROM teams_pool
    """
    assert "slug" in _refused(sql, "f" * 32)


def test_a_role_of_the_same_person_twice(acme: Acme) -> None:
    sql = """
        INSERT INTO teams_binding (id, team_id, user_id, role, created_at)
        SELECT %s, team_id, user_id, role, created_at FROM teams_binding WHERE id = %s
    """
    binding = Binding.objects.get(user=acme.researcher)
    assert "role" in _refused(sql, "f" * 32, _hex(binding))


@pytest.mark.parametrize(
    ("change", "constraint"),
    [("user_id = NULL", "binding_user_or_group"), ("role = 'king'", "binding_role_known")],
)
def test_a_role_of_nobody_or_that_nobody_knows(acme: Acme, change: str, constraint: str) -> None:
    binding = Binding.objects.get(user=acme.researcher)
    assert constraint in _refused(f"UPDATE teams_binding SET {change} WHERE id = %s", _hex(binding))


@pytest.mark.parametrize("sql", ["UPDATE teams_auditevent SET actor = 'me'", "DELETE FROM teams_auditevent"])
def test_another_past(acme: Acme, sql: str) -> None:
    record(by=Actor.system("test"), action="team.edited", target=acme.nlp)
    assert "never changed" in _refused(sql)


def test_roles_of_the_organisation_are_told_from_the_others() -> None:
    assert [role for role in Role if role.only_at_root] == [Role.ORG_ADMIN, Role.OPERATOR, Role.AUDITOR]
