"""Which part of a GPU a slice is, by the names of MIG profiles."""

import pytest

from agentlink.protocol import profiles


@pytest.mark.parametrize(
    ("gpu_type", "share_milli"),
    [
        ("mig-1g.10gb", 143),
        ("mig-2g.20gb", 286),
        ("mig-3g.40gb", 429),
        ("mig-4g.40gb", 572),
        ("mig-7g.80gb", 1000),
        ("mig-1g.10gb.me", 143),
        ("mig-1c.3g.40gb", 143),
        ("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", 143),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb+me", 143),
        ("NVIDIA-A100-SXM4-40GB-MIG-2c.3g.20gb-SHARED", 286),
        ("mig-1g.6gb", 250),
        ("mig-2g.12gb", 500),
        ("NVIDIA-A30-MIG-1g.6gb+me", 250),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition-MIG-1g.24gb", 250),
        ("NVIDIA-RTX-PRO-5000-Blackwell-MIG-1g.24gb", 500),
        ("NVIDIA-GH200-480GB-MIG-1g.24gb", 143),
        ("H100", None),
        ("NVIDIA-H100-MIG-INVALID", None),
    ],
)
def test_a_mig_slice_is_its_compute_slices_over_those_of_its_gpu(
    gpu_type: str, share_milli: int | None
) -> None:
    assert profiles.mig_share_milli(gpu_type) == share_milli


def test_product_and_memory_of_the_gpu_say_how_many_slices_it_has() -> None:
    assert profiles.mig_share_milli("mig-1g.24gb") == 143
    assert profiles.mig_share_milli("mig-1g.24gb", product="NVIDIA-RTX-PRO-6000-Blackwell") == 250
    assert profiles.mig_share_milli("mig-1g.5gb", product="NVIDIA-A30") == 250
    assert profiles.mig_share_milli("mig-1g.5gb", gpu_memory_mib=24576) == 250
    assert profiles.mig_share_milli("mig-1g.5gb", gpu_memory_mib=40960) == 143


@pytest.mark.parametrize(
    ("gpu_type", "replicas", "told"),
    [
        ("H100", None, ("whole", 1000)),
        ("", None, ("whole", 1000)),
        ("Migraine", None, ("whole", 1000)),
        ("mig-1g.10gb", None, ("mig", 143)),
        ("H100-MIG-INVALID", None, ("mig", 1000)),
        ("T4-SHARED", 4, ("replicas", 250)),
        ("T4-SHARED", 3, ("replicas", 334)),
        ("T4-SHARED", None, ("replicas", 500)),
        ("T4-SHARED", 1, ("replicas", 500)),
        ("H100-MIG-1g.10gb-SHARED", 2, ("mig", 72)),
    ],
)
def test_a_name_alone_tells_a_slice_from_a_gpu(
    gpu_type: str, replicas: int | None, told: tuple[str, int]
) -> None:
    assert profiles.sliced_by_name(gpu_type, replicas=replicas) == told
