"""Division in proportion to weights, rounded to whole GPUs where all ask for such."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduling.engine.quota.entitlement import BranchClaim, divide


def claim(weight: int, most: int = 10**9, unit: int = 1000, over: int = 0, name: str = "") -> BranchClaim:
    return BranchClaim(weight, most, unit, over, (name,))


def test_surplus_is_divided_in_proportion_to_the_weights() -> None:
    assert divide(20_000, [claim(1), claim(3)]) == [5_000, 15_000]


def test_who_is_full_drops_out_and_his_rest_is_divided_again() -> None:
    assert divide(12_000, [claim(1, most=1_000), claim(1), claim(1)]) == [1_000, 6_000, 5_000]


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
    assert divide(3_900, [claim(1, most=2_500, name="a"), claim(1, most=2_500, name="b")]) == [
        2_000,
        1_000,
    ]


def test_weight_zero_gets_nothing() -> None:
    assert divide(4_000, [claim(0), claim(1)]) == [0, 4_000]


claims = st.lists(
    st.builds(
        lambda weight, most, unit, over: (weight, most, unit, over),
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
    parties = [BranchClaim(*row, (f"{index}",)) for index, row in enumerate(rows)]
    parts = divide(amount, parties)
    assert sum(parts) <= amount
    assert all(0 <= part <= claim.most for part, claim in zip(parts, parties, strict=True))
    hungry = [p for part, p in zip(parts, parties, strict=True) if p.weight and part + p.unit <= p.most]
    if hungry:
        assert amount - sum(parts) < 1000 * len(hungry)
