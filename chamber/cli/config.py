"""Which server, and with which token: from the environment, else from what `chamber login` kept."""

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from chamber.cli.status import Exit, Failure

DEFAULT_URL = "http://127.0.0.1:8000"


@dataclass(frozen=True, slots=True)
class StoredLogin:
    """A server, the token for it, and the token's id, by which it can be revoked.

    `ca` is the file of the authority that vouches for the server; without one, those of the system do.
    """

    url: str
    token: str = ""
    token_id: str = ""
    username: str = ""
    ca: str = ""


def path() -> Path:
    """Return where the sign-in is kept."""
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(home) / "chamber" / "config.json"


def kept() -> StoredLogin | None:
    """Return what the last `chamber login` kept; None before the first."""
    try:
        found = json.loads(path().read_text())
        return StoredLogin(**{name: str(value) for name, value in found.items()})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise Failure(f"{path()} cannot be read ({error}). Delete it and run `chamber login`.") from error


def keep(login: StoredLogin) -> None:
    """Write the sign-in to a file that only its owner may read."""
    place = path()
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = place.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(asdict(login), file, indent=2)
        fresh.replace(place)
    except OSError as error:
        raise Failure(f"{place} cannot be written ({error.strerror}).") from error


def forget() -> None:
    """Delete the sign-in."""
    path().unlink(missing_ok=True)


def server(given: str | None = None) -> str:
    """Return the address to sign in to: as given, or of the environment, or the last one."""
    last = None if given or os.environ.get("CHAMBER_URL") else kept()
    return normal(given or os.environ.get("CHAMBER_URL") or (last.url if last else DEFAULT_URL))


def authority(given: Path | None, address: str) -> str:
    """Return the file of the authority for this server: as given, or of the environment, or as kept for it."""
    named = str(given) if given else os.environ.get("CHAMBER_CA", "")
    if named:
        return str(Path(named).expanduser().absolute())
    last = kept()
    return last.ca if last and last.url == address else ""


def current() -> StoredLogin:
    """Return the sign-in to use; a kept token goes only to the server that gave it."""
    url, token = os.environ.get("CHAMBER_URL"), os.environ.get("CHAMBER_TOKEN")
    last = None if url and token else kept()
    address = normal(url or (last.url if last else DEFAULT_URL))
    ca = authority(None, address)
    if token:
        return StoredLogin(address, token, ca=ca)
    if last is None or not last.token or last.url != address:
        raise Failure(f"You are not signed in to {address}. Run `chamber login`.", Exit.NOT_ALLOWED)
    return replace(last, ca=ca)


def normal(url: str) -> str:
    """Return an address with its scheme and without an ending slash."""
    address = url.strip().rstrip("/")
    if "://" not in address:
        address = f"http://{address}"
    if not address.startswith(("http://", "https://")):
        raise Failure(f"{url!r} is not an address; give one such as https://chamber.example.org.", Exit.USAGE)
    return address
