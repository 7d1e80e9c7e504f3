"""Lines filled with those of whom no candidates are made yet are as those filled with candidates one by one."""

from __future__ import annotations

from random import Random

import pytest

from scheduling.acceleration.leaf_candidates import LeafCandidates
from scheduling.acceleration.waiting_index import LevelIndex, WaitingIndex
from scheduling.engine import RESERVED_PRIORITY, ElasticPreemption, Policy
from scheduling.engine.placement.pod_request import PodRequests
from scheduling.engine.queue.candidate import Candidate, PoolRequest
from scheduling.tests.engine.build import waiting

LEAVES = 3
PRIORITIES = (10, 20, 50, 100)
LIMITED = 1


class Pair:
    """The same lines twice: filled at once, some of them as candidates (of ``several`` pools), and one by one."""

    def __init__(self, policy: Policy, chance: Random) -> None:
        self.chance = chance
        self.requests = PodRequests()
        self.pool_requests: dict[tuple[int, int], PoolRequest] = {}
        self.count = 0
        self.late = WaitingIndex(policy, self.is_limited, lambda *_: None)
        self.early = WaitingIndex(policy, self.is_limited, lambda *_: None)
        rows: dict[tuple[int, int], LeafCandidates] = {}
        for _ in range(chance.randint(0, 40)):
            candidate = self.candidate()
            self.early.add(candidate)
            key = (candidate.leaf, candidate.priority)
            row = rows.setdefault(key, LeafCandidates(candidate.leaf, reserved=candidate.reserved))
            if candidate.several:
                row.add(candidate)
            else:
                row.join(candidate.workload, candidate.pool_request)
        self.late.fill(rows)

    def is_limited(self, leaf: int) -> bool:
        """Whether a leaf stands under a ceiling."""
        return leaf == LIMITED

    def candidate(self) -> Candidate:
        """One more, unlike the others."""
        self.count += 1
        chance = self.chance
        pods, leaf = chance.choice((1, 2, 4)), chance.randrange(LEAVES)
        priority, submitted = chance.choice(PRIORITIES), chance.randint(1, 5)
        workload = waiting(f"w{self.count:03d}", "a", pods=pods, priority=priority, submitted=submitted)
        pool_request = self.pool_requests.setdefault(
            (pods, leaf), PoolRequest("main", self.requests.of(workload), 1000, pods, pods, None)
        )
        candidate = Candidate(workload, leaf, pool_request)
        candidate.several = chance.random() < 0.2
        return candidate

    def change(self) -> None:
        """One comes, or one goes; each of the two lines finds its own."""
        everybody = [
            each for line in self.early.levels.values() for row in line.leaves.values() for each in row
        ]
        if not everybody or self.chance.random() < 0.5:
            candidate = self.candidate()
            self.early.add(candidate)
            self.late.add(candidate)
            return
        gone = self.chance.choice(everybody)
        for lines in (self.early, self.late):
            found = lines.find(gone.leaf, gone.workload)
            assert found is not None
            lines.remove(found)
        assert self.late.find(gone.leaf, gone.workload) is None


def told(line: LevelIndex) -> tuple[object, ...]:
    """What can be asked of a line before its candidates are made."""
    return (dict(line.least()), dict(line.kinds), dict(line.fewest()), line.several)


def ids(lines: WaitingIndex) -> dict[object, dict[int, list[str]]]:
    """Everybody, in order."""
    return {level: {leaf: [each.id for each in row] for leaf, row in lines[level].items()} for level in lines}


@pytest.mark.parametrize("mode", ElasticPreemption)
@pytest.mark.parametrize("seed", range(40))
def test_lines_filled_at_once_are_as_those_filled_one_by_one(seed: int, mode: ElasticPreemption) -> None:
    pair = Pair(Policy(elastic_preemption=mode), Random(seed))
    for _ in range(8):
        assert list(pair.late.levels) == list(pair.early.levels) == sorted(pair.early.levels)
        for level, line in pair.early.levels.items():
            assert told(pair.late.levels[level]) == told(line)
            leaf = pair.chance.choice(list(line.rows))
            assert set(pair.late.levels[level].preemptor_kinds(leaf)) == set(line.preemptor_kinds(leaf))
        if pair.chance.random() < 0.3:
            assert ids(pair.late) == ids(pair.early)
        pair.change()
    assert ids(pair.late) == ids(pair.early)


def test_a_line_keeps_its_lists_as_others_come_and_go() -> None:
    pair = Pair(Policy(), Random(3))
    before = {level: (pair.late[level], dict(pair.late[level])) for level in pair.late}
    for _ in range(30):
        pair.change()
    for level, (leaves, rows) in before.items():
        for leaf in leaves.keys() & rows.keys() if level in pair.late else ():
            if len(rows[leaf]):
                assert pair.late[level] is leaves
                assert leaves[leaf] is rows[leaf]


def test_what_a_row_takes_is_known_without_its_candidates() -> None:
    row = LeafCandidates(0, reserved=False)
    workload = waiting("w", "a", priority=RESERVED_PRIORITY - 1)
    pool_request = PoolRequest("main", PodRequests().of(workload), 1000, 1, 1, None)
    row.join(workload, pool_request)
    assert row._candidates == []
    assert (row.takes, len(row), row.several) == ({pool_request: 1}, 1, 0)
    assert row._candidates == []
    assert [each.id for each in row.candidates()] == ["w"]
    assert row.takes == {pool_request: 1}
