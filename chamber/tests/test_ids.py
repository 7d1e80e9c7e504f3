"""Ids drawn at once are as good as those drawn one by one."""

from datetime import UTC, datetime, timedelta

from chamber.ids import first_of, new_id, new_ids


def test_ids_drawn_at_once_are_different_ascend_and_come_after_those_before() -> None:
    before = new_id()

    ids = new_ids(1000)

    assert len(set(ids)) == 1000
    assert [before, *ids] == sorted([before, *ids])
    assert {(key.version, key.variant) for key in ids} == {(before.version, before.variant)}
    assert new_ids(0) == []


def test_a_moment_parts_the_ids_that_were_drawn_before_it_from_those_after() -> None:
    before, after = datetime.now(UTC), datetime.now(UTC) + timedelta(seconds=1)
    assert first_of(before) <= new_id() < first_of(after)
