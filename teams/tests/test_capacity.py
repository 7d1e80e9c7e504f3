"""Guarantees above a pool's capacity: legal, and told with the numbers."""

from teams.capacity import capacity_milli, guaranteed_milli, oversubscribed
from teams.picture import TreePicture
from teams.tests.conftest import Acme


def test_guarantees_of_the_organisation_are_added_up(acme: Acme) -> None:
    assert guaranteed_milli(TreePicture.load()) == {acme.pool.pk: 80_000}


def test_more_than_there_is_is_told_with_the_numbers(acme: Acme) -> None:
    warnings = oversubscribed(TreePicture.load(), {acme.pool.pk: 72_000})
    assert warnings[acme.pool.pk] == (
        "80 GPUs of Main are guaranteed, and its nodes have 72 GPUs: 8 GPUs are promised that are not there."
    )


def test_as_much_as_there_is_is_not(acme: Acme) -> None:
    assert oversubscribed(TreePicture.load(), {acme.pool.pk: 80_000}) == {}


def test_a_pool_without_nodes_has_no_capacity(acme: Acme) -> None:
    assert capacity_milli() == {acme.pool.pk: 0}
    assert capacity_milli([]) == {}
