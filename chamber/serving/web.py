"""The web part: pages and API over gunicorn, a few processes with threads each."""

import errno
import logging
import os
import select
import selectors
import signal
import socket
import struct
import threading
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any

from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.config import Config
from gunicorn.glogging import Logger
from gunicorn.workers.gthread import ThreadWorker

from chamber.collecting import keep_what_is_loaded
from chamber.words import count

logger = logging.getLogger(__name__)

THREADS = 8
CLIENT_SECONDS = 20
"""How long a client may keep a thread waiting for its next bytes, or for taking ours."""
MARGIN_SECONDS = 2.0
"""What the end of the master itself may take beyond its workers' grace."""


def serve(listener: socket.socket, *, workers: int, grace_seconds: int) -> None:
    """Serve until a signal; requests under way are finished within the grace. Ends the process."""
    host, port = listener.getsockname()[:2]
    logger.info(
        "The web part listens on %s port %d, with %s.", host, port, count(workers, "process", "processes")
    )
    patience = struct.pack("ll", CLIENT_SECONDS, 0)
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        # The accepted connections inherit it.
        listener.setsockopt(socket.SOL_SOCKET, option, patience)
    _Application(listener, workers=workers, grace_seconds=grace_seconds).run()


class _Application(BaseApplication):
    """Gunicorn with settings of ours instead of command line and files."""

    def __init__(self, listener: socket.socket, *, workers: int, grace_seconds: int) -> None:
        self._options = {
            # Gunicorn takes the socket over, and closes it.
            "bind": [f"fd://{listener.detach()}"],
            "workers": workers,
            "worker_class": _ThreadWorker,
            "threads": THREADS,
            "worker_connections": 1000,
            "timeout": 60,
            "graceful_timeout": grace_seconds,
            "keepalive": 5,
            "preload_app": True,
            "limit_request_line": 8190,
            "limit_request_fields": 100,
            "limit_request_field_size": 8190,
            # Who is believed about the client's address is decided in one place, `chamber.serving.proxies`.
            "forwarded_allow_ips": "",
            "secure_scheme_headers": {},
            "forwarder_headers": "",
            "control_socket_disable": True,
            "logger_class": _Log,
        }
        super().__init__()

    def load_config(self) -> None:
        """Take the settings over."""
        for name, value in self._options.items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        """Return the application, loaded once before the workers are forked."""
        from chamber.wsgi import application

        keep_what_is_loaded()
        return application

    def run(self) -> None:
        """Run the master."""
        _Arbiter(self).run()


class _Log(Logger):
    """Gunicorn's log through the handlers of the settings, and no access log: the proxy in front keeps one."""

    def setup(self, cfg: Config) -> None:
        """Leave everything to the root logger."""
        self.cfg = cfg
        self._access_log_enabled = False
        self.error_log.propagate = True
        self.error_log.setLevel(logging.WARNING)


class _ThreadWorker(ThreadWorker):
    """Gunicorn's worker with threads. A connection on which nothing was sent yet has none of them, and new connections
    are refused while it finishes the ones it has.
    """

    def init_process(self) -> None:
        """Have a pulse while the worker runs; it ends in order with it."""
        from chamber.serving.pulse import Pulse

        pulse = Pulse("web")
        pulse.start()
        try:
            super().init_process()
        finally:
            pulse.stop()

    def enqueue_req(self, conn: Any) -> None:
        """Hand a connection to a thread; a new one once its first bytes are there, for which it has `keepalive`."""
        if conn.initialized or conn.data_ready:
            super().enqueue_req(conn)
            return
        conn.set_timeout()
        self.pending_conns.append(conn)
        self.poller.register(conn.sock, selectors.EVENT_READ, partial(self.on_pending_socket_readable, conn))

    def set_accept_enabled(self, enabled: bool) -> None:
        """When it stops, take in who is connected already and shut the socket that all workers share: who comes later
        is refused, and a proxy asks the next process, instead of being cut off with a request on its way.
        """
        super().set_accept_enabled(enabled)
        if not self.alive:
            for listener in self.sockets:
                with suppress(OSError):
                    self._empty(listener)
                    listener.sock.shutdown(socket.SHUT_RDWR)

    def _empty(self, listener: Any) -> None:
        """Accept the connections that wait in the socket's queue."""
        waiting = select.poll()
        waiting.register(listener.sock, select.POLLIN)
        while self.nr_conns < self.worker_connections and waiting.poll(0):
            before = self.nr_conns
            self.accept(listener)
            if self.nr_conns == before:  # another worker was quicker, or has shut the socket
                return

    def accept(self, listener: Any) -> None:
        """Take a connection in, unless another worker that stops has shut the socket."""
        try:
            super().accept(listener)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise


class _Arbiter(Arbiter):
    """Stops in order at the first SIGTERM or SIGINT; at the second, or where the grace is over, at once."""

    _stopping = False

    def init_signals(self) -> None:
        """Install gunicorn's handlers with ours before them; a worker alone is never stopped, nothing is reloaded."""
        super().init_signals()
        for number in (signal.SIGHUP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGUSR2, signal.SIGWINCH):
            signal.signal(number, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._asked_to_stop)

    def _asked_to_stop(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - a handler's
        if self._stopping:
            self._force()
        self._stopping = True
        timer = threading.Timer(self.cfg.graceful_timeout + MARGIN_SECONDS, self._force)
        timer.daemon = True
        timer.start()
        super().signal(signal.SIGTERM, frame)

    def _force(self) -> None:
        self.kill_workers(signal.SIGKILL)
        os._exit(1)
