"""`deploy/nginx.conf`, run for real before processes of this machine."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rig import servers
from rig.deployment import COMPOSE, ServiceProcess

UPSTREAMS = "chamber-upstreams.conf"


def configuration(folder: Path, *, ports: tuple[int, int]) -> str:
    """Return `deploy/nginx.conf` with this machine's ports and folders; every other line is as it stands."""
    text = (COMPOSE.parent / "nginx.conf").read_text()
    replaced = {
        f"/etc/nginx/{UPSTREAMS}": str(folder / UPSTREAMS),
        "/etc/nginx/tls": str(folder),
        "/var/log/nginx": str(folder),
        "listen 80 ": f"listen 127.0.0.1:{ports[0]} ",
        "listen 443 ": f"listen 127.0.0.1:{ports[1]} ",
    }
    for written, here in replaced.items():
        assert written in text, written
        text = text.replace(written, here)
    return f"user root;\n{text}" if os.geteuid() == 0 else text


def upstreams(*, web: Sequence[ServiceProcess], live: Sequence[ServiceProcess]) -> str:
    """Return the units' file of addresses with those of these processes; one stands for both where it is alone."""
    text = (COMPOSE.parent / "systemd" / "upstreams.conf").read_text()
    for port, service in zip((8000, 8001, 8010, 8011), [web[0], web[-1], live[0], live[-1]], strict=True):
        assert f"server 127.0.0.1:{port}" in text
        text = text.replace(f"127.0.0.1:{port}", service.url.removeprefix("http://"))
    return text


def certificate(folder: Path) -> None:
    """Write a certificate that vouches for itself, and its key."""
    names = ["-keyout", f"{folder}/chamber.key", "-out", f"{folder}/chamber.crt", "-subj", "/CN=localhost"]
    names += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names],
        check=True,
        capture_output=True,
    )


@contextmanager
def proxied(
    folder: Path, *, ports: tuple[int, int], web: Sequence[ServiceProcess], live: Sequence[ServiceProcess]
) -> Iterator[None]:
    """Run nginx on these ports for HTTP and HTTPS inside the block, before these processes."""
    certificate(folder)
    config = folder / "nginx.conf"
    config.write_text(configuration(folder, ports=ports))
    (folder / UPSTREAMS).write_text(upstreams(web=web, live=live))
    command = [str(servers.nginx_program()), "-p", str(folder), "-c", str(config)]
    command += ["-g", f"daemon off; pid {folder}/nginx.pid;"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()
