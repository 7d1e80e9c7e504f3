"""The tree in memory: its order, and what each team may have."""

import time
import uuid

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from chamber.ids import new_id
from teams.models import Share, Team
from teams.picture import TreePicture
from teams.tests.conftest import Acme
from teams.tests.factories import make_org, make_pool
from teams.tree import Entitled, Entitlements, Quota, TeamTree, TreeNode, moved

ROOT, A, B, A1, A2 = (uuid.UUID(int=number) for number in range(5))


def _node(
    team: uuid.UUID, parent: uuid.UUID | None, *, burst: int | None = None, most: int | None = None
) -> TreeNode:
    return TreeNode(team, parent, f"t{team.int}", burst, most)


def _tree(**limits: dict[str, int]) -> list[TreeNode]:
    """Return root ── a ── (a1, a2); root ── b."""
    places = {"root": (ROOT, None), "a": (A, ROOT), "a1": (A1, A), "a2": (A2, A), "b": (B, ROOT)}
    return [_node(team, parent, **limits.get(name, {})) for name, (team, parent) in places.items()]


def _quotas(**gpus: int) -> dict[uuid.UUID, Quota]:
    names = {"root": ROOT, "a": A, "b": B, "a1": A1, "a2": A2}
    return {names[name]: Quota(number * 1000) for name, number in gpus.items()}


def _entitled(nodes: list[TreeNode], quotas: dict[uuid.UUID, Quota]) -> Entitlements:
    return Entitlements({node.id: node for node in nodes}, quotas)


def test_a_guarantee_is_the_larger_of_reservation_and_childrens() -> None:
    found = _entitled(_tree(), _quotas(a=10, a1=4, a2=3, b=5))
    assert (found[A].guarantee_milli, found[A].own_part_milli) == (10_000, 3000)
    assert (found[ROOT].guarantee_milli, found[ROOT].own_part_milli) == (15_000, 0)
    assert found[A1].own_part_milli == 4000


def test_an_envelope_that_is_too_small_grows_and_tells_its_excess() -> None:
    found = _entitled(_tree(), _quotas(a=5, a1=4, a2=3))
    assert (found[A].guarantee_milli, found[A].excess_milli) == (7000, 2000)
    assert found[ROOT].excess_milli == 0


def test_the_ceiling_is_the_lower_of_maximum_and_burst_limit() -> None:
    found = _entitled(
        _tree(a={"burst": 50, "most": 100_000}, a1={"burst": 0}, b={"most": 1500}), _quotas(a=10, a1=4)
    )
    assert (found[A].ceiling_milli, found[A1].ceiling_milli, found[B].ceiling_milli) == (15_000, 4000, 1500)
    assert found[ROOT].ceiling_milli is None


def test_the_lowest_ceiling_above_binds_and_is_named() -> None:
    found = _entitled(_tree(a={"burst": 0}, a1={"most": 90_000}), _quotas(a=10, a1=4))
    assert (found[A1].bound_milli, found[A1].bound_by) == (10_000, A)
    assert (found[B].bound_milli, found[B].bound_by) == (None, None)


def test_the_pools_own_maximum_stands_in_for_the_teams() -> None:
    quotas = {A: Quota(0, 3000), B: Quota(0, 30_000)}
    found = _entitled(_tree(a={"most": 9000}, b={"most": 9000}), quotas)
    assert (found[A].ceiling_milli, found[B].ceiling_milli) == (3000, 30_000)


@given(st.lists(st.integers(0, 20), min_size=5, max_size=5))
def test_own_parts_add_up_to_what_the_root_is_guaranteed(gpus: list[int]) -> None:
    found = _entitled(_tree(), _quotas(**dict(zip(("root", "a", "b", "a1", "a2"), gpus, strict=True))))
    assert sum(team.own_part_milli for team in found.values()) == found[ROOT].guarantee_milli
    assert all(team.own_part_milli >= 0 for team in found.values())


def test_what_an_archived_team_was_given_counts_for_nothing() -> None:
    found = _entitled([node for node in _tree() if node.id != A2], _quotas(a1=4, a2=3))
    assert found[ROOT].guarantee_milli == 4000
    assert found.get(A2) is None


def test_a_move_is_tried_on_values_parents_first() -> None:
    nodes = moved({node.id: node for node in _tree()}, A, B)
    order = [node.id for node in nodes]
    assert order.index(B) < order.index(A) < order.index(A1)
    assert _entitled(nodes, _quotas(a1=4))[B].guarantee_milli == 4000


def test_siblings_come_by_name_below_their_parent(acme: Acme) -> None:
    assert [team.name for team in TeamTree.load()] == ["Acme", "Production", "Research", "NLP", "Vision"]
    assert [team.name for team in TeamTree.load().under([acme.research.path])] == [
        "Research",
        "NLP",
        "Vision",
    ]
    assert TeamTree.load().ancestors(acme.nlp.pk) == [acme.research.pk, acme.root.pk]


def test_archived_teams_count_for_nothing(acme: Acme) -> None:
    Team.objects.filter(pk=acme.vision.pk).update(archived_at=timezone.now())
    Share.objects.filter(team=acme.research).update(reservation_milli=0)
    found: Entitled = TreePicture.load().entitled[acme.pool.pk][acme.research.pk]
    assert found.guarantee_milli == 20_000
    assert len(TeamTree.load(archived=True)) == len(TeamTree.load()) + 1


def make_large_tree(teams: int) -> Team:
    """Return the root of a tree of so many teams in five levels, with a reservation for each."""
    root = make_org("Acme")
    levels, rows = [[root]], [root]
    for depth, width in enumerate((8, 5, 5, teams), start=1):
        level = []
        for number in range(min(width * len(levels[-1]), teams - len(rows))):
            parent, team_id = levels[-1][number % len(levels[-1])], new_id()
            path = Team.path_under(parent, team_id)
            name = f"Team {depth}-{number}"
            slug = f"team-{depth}-{number}"
            level.append(Team(id=team_id, name=name, slug=slug, parent=parent, path=path, depth=depth))
        levels.append(level)
        rows += level
    Team.objects.bulk_create(rows[1:])
    pool = make_pool()
    Share.objects.bulk_create(Share(team=team, pool=pool, reservation_milli=1000) for team in rows)
    return root


@pytest.mark.django_db
def test_two_thousand_teams_are_read_by_three_queries_and_soon(
    django_assert_num_queries: pytest.FixtureRequest,
) -> None:
    root = make_large_tree(2000)
    began = time.process_time()
    with django_assert_num_queries(3):  # type: ignore[operator]
        picture = TreePicture.load()
        found = picture.entitled
    took = time.process_time() - began
    [teams] = found.values()
    assert len(teams) == 2000
    assert teams[root.pk].guarantee_milli >= 1_600_000
    assert took < 2, f"{took:.2f} s, where 0.1 s is usual"
