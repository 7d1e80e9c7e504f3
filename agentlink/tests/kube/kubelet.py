"""A kubelet that only has logs: the API server is sent to it by a node's address, over TLS."""

import asyncio
import contextlib
import ssl
import tempfile
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from rig.namespaces import Namespace

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


class Kubelet:
    """One node's. `logs` are lines with their times by container; a line has an end unless it is `part`."""

    def __init__(self) -> None:
        self.port = 0
        self.lines: list[tuple[str, bytes]] = []
        self.asked: list[dict[str, str]] = []
        self.ended = False
        self._news = asyncio.Event()
        self._open: set[asyncio.StreamWriter] = set()

    def say(self, *lines: str | bytes) -> None:
        """Have the container write lines, a microsecond apart."""
        for line in lines:
            at = BEGAN + timedelta(microseconds=len(self.lines))
            stamp = f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond:06}000Z"
            self.lines.append((stamp, line if isinstance(line, bytes) else line.encode()))
        self._news.set()

    def end(self) -> None:
        """Have the container end: who follows has read all."""
        self.ended = True
        self._news.set()

    def cut(self) -> None:
        """Break all connections."""
        for writer in list(self._open):
            writer.transport.abort()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer requests for logs."""
        self._open.add(writer)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            target = head.split(b" ")[1].decode()
            params = {name: values[0] for name, values in parse_qs(urlsplit(target).query).items()}
            self.asked.append({"path": urlsplit(target).path, **params})
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
            await self._lines(writer, params)
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._open.discard(writer)
            writer.close()
            with contextlib.suppress(OSError, ssl.SSLError):
                await writer.wait_closed()

    async def _lines(self, writer: asyncio.StreamWriter, params: dict[str, str]) -> None:
        place = max(0, len(self.lines) - int(params.get("tailLines", len(self.lines))))
        since = params.get("sinceTime", "")[:19]
        while True:
            for stamp, line in self.lines[place:]:
                place += 1
                if stamp[:19] >= since:
                    told = f"{stamp} ".encode() + line + b"\n"
                    writer.write(f"{len(told):x}\r\n".encode() + told + b"\r\n")
            await writer.drain()
            if self.ended or params.get("follow") != "true":
                return
            self._news.clear()
            await self._news.wait()


@contextlib.asynccontextmanager
async def kubelet_of(namespace: Namespace, node: str) -> AsyncIterator[Kubelet]:
    """Serve a node's logs, and have the node say where."""
    kubelet = Kubelet()
    server = await asyncio.start_server(kubelet.answer, "127.0.0.1", 0, ssl=_certificate())
    kubelet.port = server.sockets[0].getsockname()[1]
    status: dict[str, Any] = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.port}},
    }
    await asyncio.to_thread(namespace.admin.merge, "v1", "nodes", node, {"status": status}, part="status")
    try:
        yield kubelet
    finally:
        kubelet.end()
        kubelet.cut()
        server.close()
        await server.wait_closed()


def _certificate() -> ssl.SSLContext:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubelet")])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(BEGAN - timedelta(days=1))
    certificate = made.not_valid_after(BEGAN + timedelta(days=36_500)).sign(key, hashes.SHA256())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        no_password = serialization.NoEncryption()
        pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        Path(file.name).write_bytes(key.private_bytes(pem, form, no_password) + certificate.public_bytes(pem))
        context.load_cert_chain(file.name)
    return context
