"""What an agent remembers of the server's database: how far it was when it was last heard.

It is kept with the agent's lease, where the next agent finds it: an agent keeps nothing on disk. That of a simulated
cluster has no lease, and keeps it in the cluster's state file.
"""

from uuid import UUID

from pydantic import ValidationError

from agentlink.protocol import Epoch

NOTHING = Epoch(of=UUID(int=0), number=0)


class AgentMemory:
    """The latest epoch that the server told."""

    def __init__(self) -> None:
        self.epoch = NOTHING

    def learn(self, epoch: Epoch) -> None:
        """Take in what the server tells; a message that comes late, or twice, changes nothing."""
        if epoch.of != self.epoch.of or epoch.number > self.epoch.number:
            self.epoch = epoch

    def text(self) -> str:
        """Return what is to be written down; empty where nothing is known yet."""
        return "" if self.epoch == NOTHING else f"{self.epoch.of}:{self.epoch.number}"

    def recall(self, text: str) -> None:
        """Take in what was written down, by this agent or one before it; nothing of what cannot be read."""
        of, _, number = text.partition(":")
        if len(number) > 20 or not number.isascii() or not number.isdigit():
            return
        try:
            self.learn(Epoch(of=UUID(of), number=int(number)))
        except (ValueError, ValidationError):
            return
