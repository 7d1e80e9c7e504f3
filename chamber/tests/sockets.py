"""WebSockets of tests that are as patient as a loaded machine may need."""

from typing import Any

from channels.testing import WebsocketCommunicator

PATIENCE_SECONDS = 60.0


class Socket(WebsocketCommunicator):
    """Waits a minute for what is to come, where Channels' own waits a second and then ends the application."""

    async def receive_output(self, timeout: float = PATIENCE_SECONDS) -> Any:
        """Return the application's next message, of whatever kind."""
        return await super().receive_output(max(timeout, PATIENCE_SECONDS))

    async def wait(self, timeout: float = PATIENCE_SECONDS) -> None:
        """Return when the application has ended."""
        await super().wait(max(timeout, PATIENCE_SECONDS))
