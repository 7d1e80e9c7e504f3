"""A mail server of this machine that answers as a test says, and keeps what it was told."""

import base64
import socketserver
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class MailServer:
    """Answers by the first word of a command; what is not named here is taken."""

    answers: Mapping[str, str] = field(default_factory=dict)
    offers: tuple[str, ...] = ("AUTH PLAIN",)
    told: list[str] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        """What CHAMBER_MAIL_URL says of it, without encryption and sign-in."""
        return f"smtp://127.0.0.1:{self.port}"

    def answer(self, line: str) -> str:
        """Return what is answered to a command."""
        word = line.split(" ", maxsplit=1)[0].upper()
        if word in self.answers:
            return self.answers[word]
        if word == "EHLO":
            lines = ("here", *self.offers)
            return "\r\n".join(f"250{'-' if line is not lines[-1] else ' '}{line}" for line in lines)
        return {"AUTH": "235 taken", "DATA": "354 go on", "QUIT": "221 bye"}.get(word, "250 taken")


@contextmanager
def running(
    answers: Mapping[str, str] | None = None,
    *,
    offers: tuple[str, ...] = ("AUTH PLAIN",),
    secure: ssl.SSLContext | None = None,
) -> Iterator[MailServer]:
    """Run a mail server inside the block; with `secure` it speaks TLS from the first byte."""
    server = MailServer(answers or {}, offers)

    class Talk(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self._say("220 here")
            letter = False
            for raw in self.rfile:
                line = raw.decode().rstrip("\r\n")
                if letter and line != ".":
                    continue
                server.told.append(line)
                answered = "250 taken" if letter else server.answer(line)
                letter = answered.startswith("354")
                self._say(answered)
                if answered.startswith("221"):
                    return

        def _say(self, text: str) -> None:
            self.wfile.write(f"{text}\r\n".encode())

    class Listening(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """Whoever hangs up, or speaks no TLS, is no fault of the server."""

    with Listening(("127.0.0.1", 0), Talk) as listening:
        if secure is not None:
            listening.socket = secure.wrap_socket(listening.socket, server_side=True)
        server.port = listening.server_address[1]
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            listening.shutdown()
            thread.join()


def signed_in_as(told: list[str]) -> tuple[str, str]:
    """Return the name and the password of the last AUTH PLAIN."""
    line = next(line for line in reversed(told) if line.startswith("AUTH PLAIN "))
    _, name, password = base64.b64decode(line.removeprefix("AUTH PLAIN ")).decode().split("\0")
    return name, password
