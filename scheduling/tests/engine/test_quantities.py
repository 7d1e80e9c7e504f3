"""Shares, texts and division."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.engine.model.quantities import (
    Claim,
    are,
    divide,
    gpus,
    in_arrays,
    in_gpus,
    memory_share,
    none_or_only,
)


def claim(weight: int, room: int = 10**9, unit: int = 1000, over: int = 0, name: str = "") -> Claim:
    return Claim(weight, room, unit, over, (name,))


@pytest.mark.parametrize(
    ("mib", "device", "share"),
    [(40960, 81920, 500), (81920, 81920, 1000), (1, 81920, 1), (12000, 40960, 293), (20480, 81920, 250)],
)
def test_memory_becomes_a_share_rounded_up_to_the_next_milli_gpu(mib: int, device: int, share: int) -> None:
    assert memory_share(mib, device) == share


def test_amounts_read_as_people_write_them() -> None:
    assert [in_gpus(each) for each in (8000, 250, 293, -1500, 0)] == ["8", "0.25", "0.293", "-1.5", "0"]
    assert (gpus(1000), gpus(500), gpus(2000)) == ("1 GPU", "0.5 GPUs", "2 GPUs")


def test_the_verb_agrees_with_the_amount() -> None:
    assert [are(each) for each in (1000, 500, 8000)] == ["1 is", "0.5 are", "8 are"]
    assert [none_or_only(each) for each in (0, 1000, 8000)] == ["none is", "only 1 is", "only 8 are"]


def test_surplus_is_divided_in_proportion_to_the_weights() -> None:
    assert divide(20_000, [claim(1), claim(3)]) == [5_000, 15_000]


def test_who_is_full_drops_out_and_his_rest_is_divided_again() -> None:
    assert divide(12_000, [claim(1, room=1_000), claim(1), claim(1)]) == [1_000, 6_000, 5_000]


def test_the_largest_remainder_gets_the_unit_that_rounding_left() -> None:
    assert divide(10_000, [claim(1, name="a"), claim(2, name="b")]) == [3_000, 7_000]


def test_of_equal_remainders_first_who_holds_most_above_his_part() -> None:
    assert divide(3_000, [claim(1, name="a"), claim(1, over=2_000, name="b")]) == [1_000, 2_000]


def test_holding_less_than_the_part_is_no_claim_to_the_rest() -> None:
    assert divide(3_000, [claim(1, over=-5_000, name="a"), claim(1, over=0, name="b")]) == [2_000, 1_000]


def test_a_remainder_too_small_for_anybodys_unit_goes_to_nobody() -> None:
    assert divide(1_500, [claim(1), claim(2)]) == [0, 1_000]


def test_children_that_share_gpus_are_rounded_to_the_milli_gpu() -> None:
    assert divide(1_000, [claim(1, unit=1, name="a"), claim(2, unit=1, name="b")]) == [333, 667]


def test_nobody_is_rounded_above_his_room() -> None:
    assert divide(3_900, [claim(1, room=2_500, name="a"), claim(1, room=2_500, name="b")]) == [2_000, 1_000]


def test_weight_zero_gets_nothing() -> None:
    assert divide(4_000, [claim(0), claim(1)]) == [0, 4_000]


claims = st.lists(
    st.builds(
        lambda weight, room, unit, over: (weight, room, unit, over),
        st.integers(0, 10),
        st.integers(0, 50).map(lambda gpus: gpus * 1000),
        st.sampled_from([1, 1000]),
        st.integers(-5000, 5000),
    ),
    min_size=1,
    max_size=6,
)


@given(st.integers(0, 100_000), claims)
def test_a_division_gives_no_more_than_there_is_and_leaves_less_than_a_gpu(
    amount: int, rows: list[tuple[int, int, int, int]]
) -> None:
    parties = [Claim(*row, (f"{index}",)) for index, row in enumerate(rows)]
    parts = divide(amount, parties)
    assert sum(parts) <= amount
    assert all(0 <= part <= party.room for part, party in zip(parts, parties, strict=True))
    hungry = [p for part, p in zip(parts, parties, strict=True) if p.weight and part + p.unit <= p.room]
    if hungry:
        assert amount - sum(parts) < 1000 * len(hungry)


def test_thousands_of_amounts_beyond_all_bounds_add_up_in_arrays() -> None:
    amounts = [in_arrays(each) for each in (1 << 50, 1 << 59, 1 << 70) for _ in range(2500)]
    assert np.array(amounts, np.int64).sum() == sum(amounts)
    assert in_arrays(-(1 << 70)) == -in_arrays(1 << 70)
    assert in_arrays(1 << 40) == 1 << 40
