"""Candidates that are kept from cycle to cycle have the order of those read anew, whatever has changed meanwhile."""

from __future__ import annotations

from random import Random

from scheduling.acceleration.branch_heaps import BranchHeaps
from scheduling.acceleration.heap_queue import HeapQueue, LevelHeaps
from scheduling.acceleration.waiting_index import WaitingIndex
from scheduling.engine import Policy
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.engine.queue.candidate import Candidate, PoolRequest
from scheduling.engine.queue.order import level_of
from scheduling.engine.quota.tree import Tree
from scheduling.tests.engine.build import team, waiting

LEVEL = (True, -50)
TEAMS = [
    team("a"),
    team("b"),
    team("c"),
    *[team(f"a{index}", "a") for index in range(4)],
    *[team(f"b{index}", "b") for index in range(3)],
    *[team(f"a1{index}", "a1") for index in range(3)],
]


class World:
    """Lines and figures that change, and the buckets that are kept beside them."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.tree = Tree(TEAMS)
        self.used = [0] * len(self.tree)
        self.level_heaps: LevelHeaps[Candidate] = LevelHeaps(self.tree, self.ratio, [self.used])
        self.lines = WaitingIndex(Policy(), lambda _: False, self.level_heaps.note)
        self.waiting: list[Candidate] = []
        self.count = self.skipped = 0

    def ratio(self, branch: int, milli: int) -> float:
        """Such that branches are often equal."""
        return float(self.used[branch] + milli // 1000)

    def submit(self) -> None:
        """One more waits somewhere."""
        self.count += 1
        name = self.chance.choice(TEAMS).id
        row = waiting(f"w{self.count:03d}", name, submitted=self.chance.randint(1, 9))
        milli = self.chance.choice((1000, 2000, 4000))
        leaf = self.tree.leaf_of[name]
        candidate = Candidate(row, leaf, PoolRequest("main", PodRequest.of(row), milli, 1, 1, None))
        self.waiting.append(candidate)
        self.lines.add(candidate)

    def leave(self) -> None:
        """One waits no more."""
        self.lines.remove(self.waiting.pop(self.chance.randrange(len(self.waiting))))

    def use(self, leaf: int, by: int) -> None:
        """A leaf uses more, or less."""
        for branch in self.tree.paths[leaf]:
            self.used[branch] += by

    def cycle(self) -> None:
        """Some have their turns, and use something by it; some of what they used is taken back when it is over."""
        queue = HeapQueue(self.level_heaps, {level: line.leaves for level, line in self.lines.levels.items()})
        if self.waiting and self.chance.random() < 0.5:
            queue.remove(self.chance.choice(self.waiting))  # as somebody does who has started in another pool
        before = self.used[:]
        assert self.order(queue.gone) == self.left(queue)
        for _ in range(self.chance.randint(0, len(self.waiting))):
            head = queue.peek()
            if head is None:
                break
            queue.remove(head)
            if self.chance.random() < 0.3:
                self.use(head.leaf, 1)
                queue.touch(head.leaf)
            if self.chance.random() < 0.3:
                assert self.order(queue.gone) == self.left(queue)
            if self.chance.random() < 0.2:
                self.skip(queue)
        if self.chance.random() < 0.7:
            self.used[:] = before

    def skip(self, queue: HeapQueue[Candidate]) -> None:
        """All that certainly come next, one after the other, are taken out at once."""
        run, gone = list(queue.run()), set(queue.gone)
        for each in run:
            assert self.order(gone) == each.id
            gone.add(each.id)
        queue.remove_run(run)
        self.skipped += len(run)

    def order(self, gone: set[str]) -> str | None:
        """Who is next by a bucket made anew."""
        line = self.lines.levels[LEVEL].leaves if self.lines.levels else {}
        head = BranchHeaps(self.tree, self.ratio, line, set(gone)).head()
        return None if head is None else head.id

    def left(self, queue: HeapQueue[Candidate]) -> str | None:
        """Who is next by the one that is kept."""
        head = queue.peek()
        return None if head is None else head.id


def test_a_kept_bucket_has_the_order_of_one_made_anew() -> None:
    kept = skipped = 0
    for seed in range(40):
        world = World(Random(seed))
        for _ in range(world.chance.randint(4, 30)):
            world.submit()
        assert all(level_of(Policy(), each) == LEVEL for each in world.waiting)
        heaps = None
        for _ in range(12):
            world.cycle()
            found = world.level_heaps._level_heaps.get(LEVEL)
            kept += found is heaps is not None
            heaps = found
            for _ in range(world.chance.choice((0, 1, 1, 2))):
                world.submit()
            if world.waiting and world.chance.random() < 0.3:
                world.leave()
            if world.chance.random() < 0.5:
                world.use(
                    world.chance.choice(list(world.tree.leaf_of.values())), world.chance.choice((-1, 1))
                )
        skipped += world.skipped
    assert kept > 40
    assert skipped > 100


def test_a_run_are_those_who_come_next_one_by_one() -> None:
    long = 0
    for seed in range(60):
        world = World(Random(seed))
        for _ in range(world.chance.randint(4, 40)):
            world.submit()
        queue = HeapQueue(world.level_heaps, {LEVEL: world.lines.levels[LEVEL].leaves})
        while run := list(queue.run()):
            heaps = BranchHeaps(world.tree, world.ratio, world.lines.levels[LEVEL].leaves, set(queue.gone))
            for each in run:
                assert heaps.head() is each
                heaps.remove(each)
            long += len(run) > 1
            queue.remove_run(run[: world.chance.randint(1, len(run))])
            if world.chance.random() < 0.3:
                world.use(run[0].leaf, 1)
                queue.touch(run[0].leaf)
        assert len(queue.gone) == len(world.waiting)
    assert long > 60
