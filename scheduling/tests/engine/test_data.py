"""Data sets: pods lie only in clusters that have all that they mount, and who finds none is told where it is."""

import pytest

from scheduling.engine import DataSet, ReasonCode
from scheduling.tests.engine.build import node, nodes_of, plan, team, waiting

EAST, WEST = DataSet("imagenet", ("east",), ("East",)), DataSet("coco", ("west",), ("West",))
BOTH = DataSet("laion", ("east", "west"), ("East", "West"))
LOST = DataSet("lost", ())
A = (team("a", reserved=8),)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ((EAST,), "The data set imagenet is on East only."),
        ((BOTH,), "The data set laion is on East and West only."),
        ((LOST,), "The data set lost is on no cluster."),
        ((EAST, LOST), "The data set lost is on no cluster."),
    ],
)
def test_it_is_told_where_its_data_is(data: tuple[DataSet, ...], told: str) -> None:
    found = plan([node("n0", cluster="north")], A, [waiting("w", "a", data=data)])
    [wait] = found.waits
    assert (wait.reason.code, wait.reason.message) == (ReasonCode.DATA_ELSEWHERE, told)


def test_data_in_different_clusters_is_told_apart() -> None:
    nodes = [node("n0", cluster="east"), node("n1", cluster="west")]
    [wait] = plan(nodes, A, [waiting("w", "a", data=(EAST, WEST))]).waits
    assert wait.reason.message == (
        "No cluster with nodes of the pool main has all its data sets: imagenet on East only, coco on West only."
    )


def test_it_starts_where_its_data_is() -> None:
    nodes = [node("n0", cluster="west"), node("n1", cluster="east")]
    assert nodes_of(plan(nodes, A, [waiting("w", "a", data=(EAST, BOTH))]), "w") == ["n1"]
