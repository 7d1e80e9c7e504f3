"""What the doctor says of a mail server that is away, refuses the sign-in, or is none; of a folder in its place."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from chamber import mailing
from chamber.doctor import mail
from chamber.doctor.finding import Finding
from rig import servers


def found(settings: Settings, url: str) -> list[Finding]:
    """Return what is found where mail goes to this URL."""
    settings.MAIL = bool(url)
    for name, value in mailing.settings_of(url).items():
        setattr(settings, name, value)
    return list(mail.answers())


@contextmanager
def mail_server(*, lets_in: bool) -> Iterator[int]:
    """Run a mail server for one conversation; give its port."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:

        def talk() -> None:
            peer, _ = listening.accept()
            with peer, peer.makefile("rwb") as wire:
                wire.write(b"220 mail.test\r\n")
                wire.flush()
                for line in wire:
                    verb = line.split()[0].upper()
                    answer = {b"EHLO": b"250-mail.test\r\n250 AUTH PLAIN", b"QUIT": b"221 Bye"}.get(verb)
                    if verb == b"AUTH":
                        answer = b"235 Ok" if lets_in else b"535 5.7.8 Authentication credentials invalid."
                    wire.write((answer or b"502 No") + b"\r\n")
                    wire.flush()

        talking = threading.Thread(target=talk, daemon=True)
        talking.start()
        yield listening.getsockname()[1]
        talking.join(10)


def test_without_one_there_is_nothing_to_look_at(settings: Settings) -> None:
    assert found(settings, "") == []


def test_one_that_lets_in_is_well(settings: Settings) -> None:
    with mail_server(lets_in=True) as port:
        assert found(settings, f"smtp://ada:secret@127.0.0.1:{port}") == []


def test_one_that_refuses_the_sign_in_is_told_with_its_words_and_without_the_password(
    settings: Settings,
) -> None:
    with mail_server(lets_in=False) as port:
        [told] = found(settings, f"smtp://ada:secret@127.0.0.1:{port}")
    assert told.problem == (
        f"The mail server 127.0.0.1:{port} refuses the sign-in: 5.7.8 Authentication credentials invalid."
    )
    assert told.advice.startswith("Correct the user and the password in CHAMBER_MAIL_URL.")
    assert "secret" not in told.problem + told.advice


@pytest.mark.parametrize(("scheme", "lets_in"), [("smtp+starttls", True), ("smtp", None)])
def test_one_that_is_away_or_does_not_encrypt_is_told(
    settings: Settings, scheme: str, lets_in: bool | None
) -> None:
    if lets_in is None:
        port = servers.free_port()
        [told] = found(settings, f"{scheme}://127.0.0.1:{port}")
        assert told.problem == f"The mail server 127.0.0.1:{port} cannot be used: Connection refused."
    else:
        with mail_server(lets_in=lets_in) as port:
            [told] = found(settings, f"{scheme}://127.0.0.1:{port}")
        assert told.problem.startswith(f"The mail server 127.0.0.1:{port} cannot be used: STARTTLS")
    assert "smtp+starttls" in told.advice


def test_a_folder_must_be_one_that_can_be_written(settings: Settings, tmp_path: Path) -> None:
    assert found(settings, f"file://{tmp_path}") == []
    (tmp_path / "file").touch()
    for missing in ("file", "nowhere"):
        [told] = found(settings, f"file://{tmp_path / missing}")
        assert told.problem.startswith(f"Mails are written into {tmp_path / missing}, which is no folder")
