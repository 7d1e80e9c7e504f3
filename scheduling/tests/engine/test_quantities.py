"""Shares and texts."""

from __future__ import annotations

import numpy as np
import pytest

from scheduling.engine.model.quantities import (
    are,
    gpus,
    in_arrays,
    in_gpus,
    memory_share,
    none_or_only,
)


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


def test_thousands_of_amounts_beyond_all_bounds_add_up_in_arrays() -> None:
    amounts = [in_arrays(each) for each in (1 << 50, 1 << 59, 1 << 70) for _ in range(2500)]
    assert np.array(amounts, np.int64).sum() == sum(amounts)
    assert in_arrays(-(1 << 70)) == -in_arrays(1 << 70)
    assert in_arrays(1 << 40) == 1 << 40
