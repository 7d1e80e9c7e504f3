"""Ports of servers that tests start, stop and start again."""

import socket
from pathlib import Path

import pytest

from rig import servers


def test_no_port_is_one_that_the_system_gives_to_outgoing_connections() -> None:
    given = Path("/proc/sys/net/ipv4/ip_local_port_range")
    if not given.exists():
        pytest.skip("this system says nowhere which ports it gives")
    first, last = map(int, given.read_text().split())
    chosen = {servers.free_port() for _ in range(200)}
    assert not chosen & set(range(first, last + 1))
    assert len(chosen) > 150


def test_a_port_where_a_server_listens_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", servers.free_port())) as listener:
        port = listener.getsockname()[1]
        monkeypatch.setattr(servers, "PORTS", range(port, port + 1))
        with pytest.raises(servers.ServerFailed, match=rf"No port of {port} to {port} is free"):
            servers.free_port()
    assert servers.free_port() == port
