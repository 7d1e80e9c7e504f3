"""The turns of a cycle taken again, as far as they can be told from the plan (sections 4, 6 and 7).

Each candidate's turn comes in the order of the page; what the plan says of it is done, and judged by what is there at
that moment. Who starts without victims, though there was no room at his turn, must have been offered what a later
newcomer's victims left over. Where it cannot be told when somebody started (he may have been held back by a start
reservation first), the rest of the course is not judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from scheduling.checker.board import Board
from scheduling.checker.eligible import Admission, wishes_of
from scheduling.checker.picture import Action, Picture
from scheduling.checker.queue import Line
from scheduling.checker.victims import Taking, broken_rights, what_leaves
from scheduling.checker.violation import BrokenRule, Violation, broken
from scheduling.engine.model.plan import Start
from scheduling.engine.model.snapshot import OpenStatus, PodPlacement, Queueing, WorkloadInfo


class Turns:
    """The course of a cycle over all pools."""

    def __init__(self, picture: Picture, admission: Admission, boards: dict[str, Board]) -> None:
        self._picture = picture
        self._admission = admission
        self._boards = boards
        self._waiting: dict[str, list[WorkloadInfo]] = {pool: [] for pool in boards}
        self._offered: list[WorkloadInfo] = []
        self.heads: dict[str, WorkloadInfo | None] = dict.fromkeys(boards)
        """The first of those who wait in each pool that lacked only a place when its turn came."""
        self._to_come = Counter(start.pool for start in picture.plan.starts if start.victims)
        self._named = Counter(id_ for start in picture.plan.starts for id_ in start.victims)
        self._lines = {
            pool: Line(board, [each for each in self._candidates() if pool in admission.of(each).pools])
            for pool, board in boards.items()
        }
        self._ahead: dict[str, WorkloadInfo] = {}
        self.order: list[WorkloadInfo] = []
        self.told = True
        """Whether the whole course could be told."""

    def _candidates(self) -> list[WorkloadInfo]:
        pending = [each for each in self._picture.snapshot.workloads if each.status is OpenStatus.PENDING]
        return sorted(pending, key=lambda workload: workload.id)

    def run(self) -> Iterator[Violation]:
        """Take all turns, and say what is wrong at each."""
        while (workload := self._next()) is not None:
            self.order.append(workload)
            for pool in self._admission.of(workload).pools:
                self._lines[pool].remove(workload)
            fate = self._picture.fates[workload.id]
            if fate.action is not Action.START or fate.pool not in self._admission.of(workload).pools:
                yield from self._waits(workload)
                continue
            start, board = self._picture.starts[workload.id], self._boards[fate.pool]
            if start.victims:
                if any(self._named[id_] > 1 for id_ in start.victims) or self._unsure(fate.pool):
                    self.told = False
                    return
                yield from self._starts_with_victims(workload, start, board)
                self._to_come[fate.pool] -= 1
                self._offer()
            elif board.quota_allows(workload, board.asked(workload)) and board.is_free(
                workload, self._pods(workload)
            ):
                if self._to_come[fate.pool] and self._held_up(fate.pool):
                    self.told = False
                    return
                yield from self._starts(workload, start, board)
            else:
                self._offered.append(workload)
                if board.quota_allows(workload, board.asked(workload)):
                    self._ahead.setdefault(fate.pool, workload)
        for workload in self._offered:
            text = f"{workload.id} starts, although its turn came when it could not, and nothing was left over later."
            yield broken(BrokenRule.ORDER, text, workload=workload.id)

    def _next(self) -> WorkloadInfo | None:
        """The head of all queues that it stands in; where heads wait for each other, the first of them."""
        heads: list[WorkloadInfo] = []
        for line in self._lines.values():
            head = line.head()
            if head is not None:
                pools = self._admission.of(head).pools
                if all((other := self._lines[pool].head()) and other.id == head.id for pool in pools):
                    return head
                heads.append(head)
        first = [(not head.reserved, -head.priority, head.submitted_at, head.id, head) for head in heads]
        return min(first)[-1] if first else None

    def _held_up(self, pool: str) -> bool:
        """Whether somebody waits there whom his quota would admit, be it until something is left over for him: others
        may be behind him."""
        if self._boards[pool].pool.policy.queueing is Queueing.BEST_EFFORT_FIFO:
            return False
        return pool in self._ahead or self.heads[pool] is not None

    def _unsure(self, pool: str) -> bool:
        """Whether those who were offered something may have got it earlier than can be told."""
        if self._boards[pool].pool.policy.queueing is Queueing.BEST_EFFORT_FIFO:
            return False
        return bool(self._offered) and self.heads[pool] is not None

    # --- One turn -------------------------------------------------------------------------------------------

    def _waits(self, workload: WorkloadInfo) -> Iterator[Violation]:
        """Nobody waits who fits at his turn, nor a reserved one for whom elastic work could make way."""
        fate = self._picture.fates[workload.id]
        for pool in self._admission.of(workload).pools:
            board = self._boards[pool]
            milli = board.asked(workload)
            if self._held_up(pool):
                continue
            if board.quota_allows(workload, milli) and board.has_place(workload):
                text = f"{workload.id} waits, although it fitted in {pool} when its turn came."
                yield broken(BrokenRule.PASSED_OVER, text, workload=workload.id, pool=pool)
            elif workload.reserved and self._could_make_way(board, workload, milli):
                text = (
                    f"{workload.id} waits inside its guarantee, although elastic work could make way for it."
                )
                yield broken(BrokenRule.GUARANTEE_NOT_HONOURED, text, workload=workload.id, pool=pool)
        if fate.pool in self._waiting:
            self._waiting[fate.pool].append(workload)
            board = self._boards[fate.pool]
            if self.heads[board.pool.id] is None and board.quota_allows(workload, board.asked(workload)):
                self.heads[board.pool.id] = workload

    def _could_make_way(self, board: Board, workload: WorkloadInfo, milli: int) -> bool:
        if board.charging.available(workload.team) < milli:
            return False
        key = ("make way", workload.team, milli, workload.min_pods, *wishes_of(workload))
        found = board.known.get(key)
        if found is None:
            found = self._all_elastic_gone(board, workload, milli)
            board.known[key] = found
        return found

    def _all_elastic_gone(self, board: Board, workload: WorkloadInfo, milli: int) -> bool:
        """Whether it would fit if all elastic work went."""
        takings = [Taking(victim, pods, whole=True) for victim, pods in board.elastic.values()]
        if not board.quota_allows(workload, milli, what_leaves(board, takings)):
            return False
        for taking in takings:
            board.trial(taking.victim, taking.pods, -1)
        found = board.has_place(workload)
        for taking in takings:
            board.trial(taking.victim, taking.pods, 1)
        return found

    def _starts(self, workload: WorkloadInfo, start: Start, board: Board) -> Iterator[Violation]:
        """Without victims: not past a head under strict FIFO, in the narrowest domain, in the first pool."""
        if not self._held_up(board.pool.id):
            level = None if start.waits_for_victims else board.narrower(workload, self._pods(workload))
            if level is not None:
                text = f"{workload.id} prefers one {level}, and there was room in one."
                yield broken(BrokenRule.TOPOLOGY_PREFERRED, text, workload=workload.id)
            elif not start.waits_for_victims:
                yield from self._more_nodes(workload, board)
        elif board.pool.policy.queueing is Queueing.STRICT_FIFO:
            ahead = self.heads[board.pool.id]
            text = f"{workload.id} passes {ahead.id if ahead else ''}, which waits for a place."
            yield broken(BrokenRule.STRICT_FIFO, text, workload=workload.id, pool=board.pool.id)
        for pool in self._admission.of(workload).pools:
            if pool == board.pool.id:
                break
            if self._fits(pool, workload):
                text = f"{workload.id} starts in {board.pool.id}, although it fitted in {pool}."
                yield broken(BrokenRule.PASSED_OVER, text, workload=workload.id, pool=pool)
        self._seat(workload, board)

    def _fits(self, pool: str, workload: WorkloadInfo) -> bool:
        """Whether it fits there without victims, and nobody is ahead of it."""
        board = self._boards[pool]
        quota = not self._held_up(pool) and board.quota_allows(workload, board.asked(workload))
        return quota and board.has_place(workload)

    def _more_nodes(self, workload: WorkloadInfo, board: Board) -> Iterator[Violation]:
        """A gang that names a level lies on no more nodes than it needs."""
        pods = self._pods(workload)
        used, fewest = len({pod.node for pod in pods}), board.fewest_nodes(workload, pods)
        if fewest is not None and used > fewest:
            text = f"{workload.id} names a level and lies on {used} nodes, where {fewest} had room for it."
            yield broken(BrokenRule.MORE_NODES, text, workload=workload.id)

    def _pods(self, workload: WorkloadInfo) -> tuple[PodPlacement, ...]:
        return self._picture.fates[workload.id].at_its_turn

    def _seat(self, workload: WorkloadInfo, board: Board) -> None:
        board.start(workload, self._pods(workload))
        self._lines[board.pool.id].touch(workload)

    def _starts_with_victims(self, workload: WorkloadInfo, start: Start, board: Board) -> Iterator[Violation]:
        """Only with lawful victims, each of whom is needed, and not where it fitted without any."""
        where = {"workload": workload.id, "pool": board.pool.id}
        for pool in self._admission.of(workload).pools:
            if self._fits(pool, workload):
                text = f"{workload.id} has victims, although it fitted in {pool} without."
                yield broken(BrokenRule.NEEDLESS_VICTIM, text, workload=workload.id, pool=pool)
        held_up = self._held_up(board.pool.id)
        if held_up and board.pool.policy.queueing is Queueing.STRICT_FIFO:
            yield broken(BrokenRule.STRICT_FIFO, f"{workload.id} passes somebody with victims.", **where)
        takings = self._takings(start, board)
        yield from broken_rights(board, workload, takings)
        used = Counter(board.used)
        for taking in takings:
            board.leave(taking.victim, taking.pods)
            self._lines[board.pool.id].touch(taking.victim)
        milli = board.asked(workload)
        if not (board.quota_allows(workload, milli) and board.is_free(workload, self._pods(workload))):
            text = f"{workload.id} does not fit although its victims go."
            yield broken(BrokenRule.NO_BENEFICIARY, text, **where)
        elif not held_up:
            yield from self._needless(board, workload, takings, used)
        self._seat(workload, board)

    def _takings(self, start: Start, board: Board) -> list[Taking]:
        """What the newcomer takes: those that go whole, and pods above a minimum one by one."""
        found = []
        for id_ in start.victims:
            fate = self._picture.fates[id_]
            if id_ not in board.elastic:
                continue
            workload, there = board.elastic[id_]
            pods = tuple(pod for pod in there if pod in fate.lost)
            if fate.action is Action.PREEMPT:
                found.append(Taking(workload, pods, whole=True))
            else:
                found.extend(Taking(workload, (pod,), whole=False) for pod in pods)
        return found

    def _needless(
        self, board: Board, workload: WorkloadInfo, takings: list[Taking], used: Counter[str]
    ) -> Iterator[Violation]:
        """Those without whom the newcomer fits too, and may still take the others; ``used`` is from before."""
        milli = board.asked(workload)
        for taking in takings:
            back = Counter({each: -size for each, size in what_leaves(board, [taking]).items()})
            board.trial(taking.victim, taking.pods, 1)
            spared = board.quota_allows(workload, milli, back) and board.has_place(workload)
            board.trial(taking.victim, taking.pods, -1)
            if spared and self._lawful(board, workload, [each for each in takings if each != taking], used):
                text = f"{workload.id} fits without {taking.victim.id} too."
                yield broken(
                    BrokenRule.NEEDLESS_VICTIM, text, workload=taking.victim.id, workload2=workload.id
                )

    def _lawful(
        self, board: Board, workload: WorkloadInfo, takings: list[Taking], used: Counter[str]
    ) -> bool:
        """Whether the newcomer might have taken these alone."""
        board.used, now = used, board.used
        found = next(broken_rights(board, workload, takings), None) is None
        board.used = now
        return found

    def _offer(self) -> None:
        """What victims left over goes to those whose turn came before, and who fit on it now."""
        found = True
        while found:
            found = False
            for workload in list(self._offered):
                start = self._picture.starts[workload.id]
                board = self._boards[start.pool]
                allowed = board.quota_allows(workload, board.asked(workload))
                if allowed and board.is_free(workload, self._pods(workload)):
                    self._offered.remove(workload)
                    self._seat(workload, board)
                    found = True
        self._ahead.clear()
        for workload in reversed(self._offered):
            pool_id = self._picture.starts[workload.id].pool
            board = self._boards[pool_id]
            if board.quota_allows(workload, board.asked(workload)):
                self._ahead[pool_id] = workload
        for pool, board in self._boards.items():
            ready = (each for each in self._waiting[pool] if board.quota_allows(each, board.asked(each)))
            self.heads[pool] = next(ready, None)
