"""The demo's process: server, timer, agents and the stream of workloads as tasks of one event loop."""

import asyncio
import logging
import socket
from collections.abc import Sequence

import uvicorn

from chamber import embedded, live
from chamber.demo import organisation, stream, supervisor
from chamber.serving.pulse import Pulse

logger = logging.getLogger(__name__)


async def serve(
    listener: socket.socket, *, url: str, setting: organisation.DemoSetting, with_stream: bool
) -> None:
    """Serve until a signal stops the server, then end the other tasks and return."""
    from chamber.asgi import application

    live.bind(asyncio.get_running_loop())
    timer = embedded.Timer()
    embedded.install(timer)
    server = _DemoServer(
        uvicorn.Config(
            application,
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,  # nobody stands in between: whoever names another address made it up
            ws_max_size=4 * 1024 * 1024,  # over 1 MiB is answered by the link itself, with a sentence
            timeout_graceful_shutdown=2,
        )
    )
    agents = supervisor.Supervisor(url=url, clusters=setting.clusters)
    supervisor.install(agents)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started and not serving.done():
        await asyncio.sleep(0.02)
    tasks = [
        asyncio.create_task(timer.run()),
        asyncio.create_task(agents.run()),
        *([asyncio.create_task(stream.run(setting))] if with_stream else []),
    ]
    for task in tasks:
        task.add_done_callback(_report)
    server.before_shutdown = tasks
    print(organisation.greeting(url), flush=True)
    pulse = Pulse("all")
    pulse.start()
    try:
        await serving
    finally:
        await asyncio.to_thread(pulse.stop)
        await _end(tasks)
        live.bind(None)
        embedded.install(None)


class _DemoServer(uvicorn.Server):
    """Ends the demo's own tasks before it closes connections: agents leave, they are not cut off."""

    before_shutdown: "Sequence[asyncio.Task[None]]" = ()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the tasks, then shut down."""
        await _end(self.before_shutdown)
        await super().shutdown(sockets)


async def _end(tasks: "Sequence[asyncio.Task[None]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _report(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and task.exception() is not None:
        logger.error("A part of the demo ended by a fault.", exc_info=task.exception())
