"""Ids drawn at once are as good as those drawn one by one."""

from chamber.ids import new_id, new_ids


def test_ids_drawn_at_once_are_different_ascend_and_come_after_those_before() -> None:
    before = new_id()

    ids = new_ids(1000)

    assert len(set(ids)) == 1000
    assert [before, *ids] == sorted([before, *ids])
    assert {(key.version, key.variant) for key in ids} == {(before.version, before.variant)}
    assert new_ids(0) == []
