"""HTTP to Django; sockets to the live pages and to the agents' link."""

import os
from typing import Any

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chamber.settings")
http = get_asgi_application()

from channels.auth import AuthMiddlewareStack  # noqa: E402 - needs the apps to be loaded
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from channels.security.websocket import AllowedHostsOriginValidator  # noqa: E402
from django.urls import path, re_path  # noqa: E402

from agentlink.consumers import AgentConsumer  # noqa: E402
from agentlink.logs.consumers import AgentLogsConsumer  # noqa: E402
from chamber.consumers import LiveConsumer, NoSuchSocket  # noqa: E402
from chamber.limiting import SocketLimits  # noqa: E402
from chamber.request_id import SocketRequestId  # noqa: E402

live: Any = SocketLimits(AllowedHostsOriginValidator(AuthMiddlewareStack(LiveConsumer.as_asgi())))
application = ProtocolTypeRouter(
    {
        "http": http,
        "websocket": SocketRequestId(
            URLRouter(
                [
                    # Agents are programs with a token of their own: no session, no browser's origin.
                    path("ws/agent/", AgentConsumer.as_asgi()),
                    path("ws/agent/logs/", AgentLogsConsumer.as_asgi()),
                    path("ws/live/", live),
                    re_path("", SocketLimits(NoSuchSocket.as_asgi())),  # type: ignore[arg-type]
                ]
            )
        ),
    }
)
