"""What the checker says: which rule is broken, and the rows that prove it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class BrokenRule(StrEnum):
    """The rules a plan can break, by the section of the design that states them."""

    # What a plan is at all.
    NOT_ONCE = "not-once"
    WRONG_ACTION = "wrong-action"
    UNKNOWN_ROW = "unknown-row"
    # 1 and 5: devices and places.
    OVER_CAPACITY = "over-capacity"
    HELD_TWICE = "held-twice"
    POD_SIZE = "pod-size"
    FOREIGN_DEVICE = "foreign-device"
    GPU_TYPE = "gpu-type"
    NODE_REFUSES = "node-refuses"
    POOL_NOT_ASKED = "pool-not-asked"
    POOL_PAUSED = "pool-paused"
    GANG_CUT = "gang-cut"
    SPANS_CLUSTERS = "spans-clusters"
    MIXED_DEVICES = "mixed-devices"
    SHARED_BY_OTHERS = "shared-by-others"
    TOPOLOGY_REQUIRED = "topology-required"
    TOPOLOGY_PREFERRED = "topology-preferred"
    MORE_NODES = "more-nodes"
    WAITS_UNTRUE = "waits-untrue"
    GROWS_WAITING = "grows-waiting"
    # 2 and 3: quotas.
    CEILING = "ceiling"
    BEYOND_GUARANTEE = "beyond-guarantee"
    SIBLINGS_GUARANTEE = "siblings-guarantee"
    ALLOCATION = "allocation"
    DEMAND = "demand"
    ENTITLEMENT = "entitlement"
    FIGURES = "figures"
    FINDINGS = "findings"
    # 4 and 6: whose turn it is.
    ORDER = "order"
    PASSED_OVER = "passed-over"
    STRICT_FIFO = "strict-fifo"
    START_RESERVATION = "start-reservation"
    NOT_ELIGIBLE = "not-eligible"
    # 7: victims.
    RESERVED_VICTIM = "reserved-victim"
    NO_BENEFICIARY = "no-beneficiary"
    UNLAWFUL_VICTIM = "unlawful-victim"
    PROTECTED_VICTIM = "protected-victim"
    NEEDLESS_VICTIM = "needless-victim"
    CUT_BELOW_MINIMUM = "cut-below-minimum"
    PING_PONG = "ping-pong"
    VICTIM_FACTS = "victim-facts"
    GUARANTEE_NOT_HONOURED = "guarantee-not-honoured"
    # 10: time.
    DEADLINE = "deadline"
    PEAK_HOURS = "peak-hours"
    # 9: reasons.
    REASON = "reason"
    POSITION = "position"


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a plan breaks.

    ``rows`` name what proves it, as "workload train", "node n0" or "team a"; ``message`` is a sentence with the
    numbers.
    """

    rule: BrokenRule
    rows: tuple[str, ...]
    message: str


def broken(rule: BrokenRule, message: str, **rows: str) -> Violation:
    """A violation whose rows are given by kind; a trailing digit of a kind only tells two of a kind apart."""
    return Violation(rule, tuple(f"{kind.rstrip('0123456789')} {id_}" for kind, id_ in rows.items()), message)
