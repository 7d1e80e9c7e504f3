"""What is measured several times a minute is told once, as means."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

from agentlink.agent.use import Gathered
from agentlink.protocol import UsageFigure

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
ONE, TWO = uuid4(), uuid4()


def test_samples_become_means_at_the_time_of_the_latest() -> None:
    gathered = Gathered()
    gathered.add(
        [
            UsageFigure(
                workload=ONE, at=NOW, utilisation_percent=90, tensor_percent=30, memory_mib=100, power_watts=400,
                devices={"a": 80, "b": 100},
            )
        ]
    )  # fmt: skip
    later = NOW + timedelta(seconds=30)
    gathered.add(
        [
            UsageFigure(workload=ONE, at=later, utilisation_percent=41, memory_mib=300, devices={"a": 1}),
            UsageFigure(workload=TWO, at=later, utilisation_percent=4, memory_mib=1),
        ]
    )
    assert gathered.take() == [
        UsageFigure(
            workload=ONE, at=later, utilisation_percent=65, tensor_percent=30, memory_mib=200, power_watts=400,
            devices={"a": 40, "b": 100},
        ),
        UsageFigure(workload=TWO, at=later, utilisation_percent=4, memory_mib=1),
    ]  # fmt: skip


def test_what_was_told_is_forgotten() -> None:
    gathered = Gathered()
    gathered.add([UsageFigure(workload=ONE, at=NOW, utilisation_percent=90, memory_mib=100)])
    gathered.take()
    assert gathered.take() == []
