"""What an agent's command says of the cluster becomes what counts as inventory."""

import pytest

from agentlink.agent.backends.native.budgets import Disruption, DisruptionKind
from agentlink.agent.backends.native.inventory import GPU_DRIVERS, GPU_RESOURCES, Settings
from agentlink.agent.kube.access import BadAccess
from agentlink.agent.native import AgentOptions


def test_what_is_not_said_is_as_usual() -> None:
    assert AgentOptions().inventory == Settings(resources=GPU_RESOURCES, drivers=GPU_DRIVERS)


def test_what_counts_as_gpus_may_be_said() -> None:
    said = AgentOptions(
        node_selectors=("pool=a", "zone in (x, y)"),
        gpu_resources=("example.com/gpu",),
        gpu_drivers=("gpu.example.com",),
        device_classes=("gpu.example.com=plain", "gpu.example.com/mig=parted"),
        partition_label="example.com/part",
    )
    assert said.inventory == Settings(
        node_selector="pool=a,zone in (x, y)",
        resources=("example.com/gpu",),
        drivers=("gpu.example.com",),
        partition_label="example.com/part",
        device_classes={"gpu.example.com": "plain", "gpu.example.com/mig": "parted"},
    )


def test_what_is_kept_from_disruption_may_be_said_and_other_words_are_refused() -> None:
    assert AgentOptions().disruption == Disruption()
    said = AgentOptions(disruption_budgets=("single", "gangs"), do_not_disrupt=("none",)).disruption
    assert said == Disruption(
        frozenset({DisruptionKind.SINGLE, DisruptionKind.GANGS}), frozenset({DisruptionKind.NONE})
    )
    with pytest.raises(BadAccess, match="'elastic' names no workloads: write reserved, gangs, single, none"):
        AgentOptions(do_not_disrupt=("elastic",))
    with pytest.raises(BadAccess, match="'adopted' names no workloads: write reserved, gangs, single, none"):
        AgentOptions(do_not_disrupt=("adopted",))
    assert AgentOptions(disruption_budgets=("adopted",)).disruption.budgets == {DisruptionKind.ADOPTED}


@pytest.mark.parametrize("pair", ["gpu.nvidia.com", "=class", "a=", "a=b=c", "A b=c"])
def test_a_device_class_that_is_none_is_refused_with_a_sentence(pair: str) -> None:
    with pytest.raises(BadAccess, match="names no device class: write driver=class"):
        AgentOptions(device_classes=(pair,))
