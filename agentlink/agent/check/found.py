"""What is asked, and what was found."""

from dataclasses import dataclass, field

from agentlink.agent.runner import Transport


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong: a sentence, and one with what to do."""

    problem: str
    advice: str


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """What the agent is to be started with. `workloads` are namespaces in which workloads run; empty: the agent's own.

    `uses_claims`: GPUs are to be given by Dynamic Resource Allocation. Without a `url` the server is not looked at.
    """

    workloads: tuple[str, ...] = ()
    node_selector: str = ""
    uses_claims: bool = False
    url: str = ""
    token: str = ""
    transport: Transport = "websocket"


@dataclass(slots=True)
class CheckReport:
    """What was found, by the check that found it; which checks were made, and which could not be."""

    problems: list[tuple[str, Problem]] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
