"""Who goes for whom."""

from __future__ import annotations

from dataclasses import replace

from scheduling.checker import BrokenRule
from scheduling.engine import ElasticPreemption
from scheduling.tests.engine.build import MINUTE, NOW, node, placed, pool, team, waiting
from scheduling.tests.proof.faults.worlds import (
    EQUAL,
    GANG,
    IMPORTANT,
    IN_THE_WAY,
    RESERVE,
    Fault,
    each,
    world,
)
from scheduling.tests.proof.plants import blind, field, garbled, of, policy, wrong

VICTIMS = (
    Fault(
        "a reserved workload is preempted",
        BrokenRule.RESERVED_VICTIM,
        world(
            node("n", 1),
            placed("r", "b", on="n:0", priority=100),
            waiting("w", "a", priority=100),
            teams=(team("a", reserved=1), team("b", reserved=1)),
        ),
        blind(workloads=of("r", priority=50)),
    ),
    Fault(
        "who runs too short is preempted",
        BrokenRule.PROTECTED_VICTIM,
        world(*IMPORTANT, pools=(pool(min_runtime_ms=60 * MINUTE),)),
        blind(pools=policy(min_runtime_ms=0)),
    ),
    Fault(
        "who was preempted too often goes again",
        BrokenRule.PROTECTED_VICTIM,
        world(*IMPORTANT, pools=(pool(max_preemptions=1),)),
        blind(pools=policy(max_preemptions=None)),
    ),
    Fault(
        "elastic work preempts under never",
        BrokenRule.UNLAWFUL_VICTIM,
        world(*IMPORTANT, pools=(pool(elastic_preemption=ElasticPreemption.NEVER),)),
        blind(pools=policy(elastic_preemption=ElasticPreemption.PRIORITY)),
    ),
    Fault(
        "a more important one is preempted",
        BrokenRule.UNLAWFUL_VICTIM,
        world(node("n", 1), placed("r", "a", on="n:0", priority=80), waiting("w", "b", priority=60)),
        blind(workloads=of("r", priority=10)),
    ),
    Fault(
        "a team within its share loses to another",
        BrokenRule.UNLAWFUL_VICTIM,
        EQUAL,
        blind(teams=of("b", weight=3)),
    ),
    Fault(
        "a victim could take its place back at once",
        BrokenRule.PING_PONG,
        EQUAL,
        blind(teams=of("b", shares=team("b", reserved=3).shares)),
    ),
    Fault(
        "victims are not given back",
        BrokenRule.NEEDLESS_VICTIM,
        IN_THE_WAY,
        wrong("preemption.search.Search._give_back", lambda _: None),
    ),
    Fault(
        "somebody goes although a device is idle",
        BrokenRule.NEEDLESS_VICTIM,
        world(*IMPORTANT, node("m", 1)),
        blind(nodes=of("m", cordoned=True)),
    ),
    Fault(
        "victims go who may not go together in any order",
        BrokenRule.UNLAWFUL_VICTIM,
        world(
            node("n", 6),
            node("m", 3),
            *(placed(f"b{at}", "b", 2, on=f"n:{2 * at},{2 * at + 1}") for at in range(3)),
            waiting("w", "a", 6),
            teams=(team("a", reserved=6), team("b", reserved=3)),
        ),
        wrong("preemption.joint_eligibility._before_the_last", lambda _: 0),
    ),
    Fault(
        "a gang is cut below its minimum",
        BrokenRule.CUT_BELOW_MINIMUM,
        GANG,
        blind(workloads=of("r", min_pods=1)),
    ),
    Fault(
        "a newcomer does not know its victims",
        BrokenRule.NO_BENEFICIARY,
        world(*IMPORTANT),
        each("starts", lambda row: replace(row, victims=())),
    ),
    Fault(
        "victims go and nobody comes",
        BrokenRule.NO_BENEFICIARY,
        world(*IMPORTANT),
        garbled(
            lambda plan: replace(
                plan,
                preemptions=tuple(replace(row, by="two") for row in plan.preemptions),
            )
        ),
    ),
    Fault(
        "a reserved one finds no victims",
        BrokenRule.GUARANTEE_NOT_HONOURED,
        RESERVE,
        wrong("pool.pool_cycle.PoolCycle.find_victims", lambda *_: None),
    ),
    Fault(
        "lost work is not counted",
        BrokenRule.VICTIM_FACTS,
        world(*IMPORTANT),
        blind(workloads=field(checkpointed_at=NOW)),
    ),
    Fault(
        "the level of a preemption is wrong",
        BrokenRule.VICTIM_FACTS,
        RESERVE,
        each("preemptions", lambda row: replace(row, level=None)),
    ),
    Fault(
        "nobody is protected",
        BrokenRule.PROTECTED_VICTIM,
        world(*IMPORTANT, pools=(pool(min_runtime_ms=60 * MINUTE),)),
        wrong("pool.pool_state.protected", lambda *_: False),
    ),
)
