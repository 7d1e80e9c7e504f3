"""Many rows in one statement, each with its own values."""

from datetime import UTC, datetime, timedelta

import pytest

from chamber.bulk import insert_each, update_each
from teams.models import Pool, Team
from teams.tests.factories import make_org, make_pool, make_team, make_user
from workloads.models import Event
from workloads.tests.factories import make_workload

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_each_row_gets_its_own_values(django_assert_num_queries: pytest.FixtureRequest) -> None:
    org = make_org()
    teams = [make_team(org, f"Team {n}") for n in range(3)]
    for n, team in enumerate(teams):
        team.name, team.maximum_milli, team.archived_at = f"Neu {n}", n or None, NOON + timedelta(hours=n)
    with django_assert_num_queries(1):  # type: ignore[operator]
        assert update_each(teams, ["maximum_milli", "archived_at"]) == 3
    stored = list(
        Team.objects.filter(depth=1).order_by("pk").values_list("name", "maximum_milli", "archived_at")
    )
    assert stored == [(f"Team {n}", n or None, NOON + timedelta(hours=n)) for n in range(3)]


def test_json_and_references_are_stored_as_they_are_read() -> None:
    org = make_org()
    one, other = make_pool("One"), make_pool("Other")
    one.node_selector, other.topology = {"a": "it's 100 %"}, ["rack", "row"]
    update_each([one, other], ["node_selector", "topology"])
    assert Pool.objects.get(pk=one.pk).node_selector == {"a": "it's 100 %"}
    assert Pool.objects.get(pk=other.pk).topology == ["rack", "row"]
    team, parent = make_team(org, "Moved"), make_team(org, "Parent")
    team.parent = parent
    update_each([team], ["parent"])
    assert Team.objects.get(pk=team.pk).parent_id == parent.pk


def test_more_rows_than_one_statement_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chamber.bulk.MOST_PARAMETERS", 4)
    pools = [make_pool(f"Pool {n}") for n in range(5)]
    for n, pool in enumerate(pools):
        pool.order = 10 + n
    assert update_each(pools, ["order"]) == 5
    assert list(Pool.objects.order_by("pk").values_list("order", flat=True)) == [10, 11, 12, 13, 14]


def test_rows_that_are_gone_are_not_counted_and_no_rows_are_no_query(
    django_assert_num_queries: pytest.FixtureRequest,
) -> None:
    assert update_each([Pool(order=3)], ["order"]) == 0
    with django_assert_num_queries(0):  # type: ignore[operator]
        assert update_each([], ["order"]) == 0


@pytest.mark.parametrize("most", [25, 20_000])
def test_rows_are_added_with_their_values(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr("chamber.bulk.MOST_PARAMETERS", most)
    workload = make_workload(make_team(make_org(), "Team"), make_user("rosa"))
    fields = (
        "workload",
        "sequence",
        "at",
        "kind",
        "user",
        "actor",
        "via",
        "attempt_number",
        "message",
        "data",
    )
    rows = [
        (
            workload.pk,
            number,
            NOON,
            "note",
            None,
            "rosa",
            "web",
            number if number > 8 else None,
            "it's 1 %",
            {"n": [number]},
        )
        for number in range(7, 10)
    ]
    insert_each(Event, fields, rows)
    insert_each(Event, fields, [])
    assert list(Event.objects.filter(kind="note").values_list(*fields)) == rows
