"""The authority whose certificates the agent believes of Chamber's server, where one is named."""

import os
import ssl
from pathlib import Path

VARIABLE = "CHAMBER_CA"
"""The same variable, with the same meaning, that the command line reads."""

_UNKNOWN = frozenset({2, 18, 19, 20, 21})
"""OpenSSL's numbers for a chain that ends at no trusted authority, and for a self-signed certificate."""


class BadAuthority(Exception):  # noqa: N818 - an answer to whoever started the agent
    """A file that names no authority, as a sentence."""


def context() -> ssl.SSLContext | None:
    """Return what a connection to the server is checked by: the authority in the file that `CHAMBER_CA` names, and no
    other; None where it names none, for the system's and those of SSL_CERT_FILE.

    The file is read anew for each connection: it may be replaced under a running agent. Raises `BadAuthority`.
    """
    named = os.environ.get(VARIABLE, "")
    if not named:
        return None
    file = Path(named).expanduser().absolute()
    try:
        return ssl.create_default_context(cafile=file)
    except ssl.SSLError as error:
        raise BadAuthority(
            f"{VARIABLE} names {file}, which holds no certificate; name a file in PEM form, which begins with BEGIN "
            "CERTIFICATE."
        ) from error
    except OSError as error:
        raise BadAuthority(f"{VARIABLE} names {file}, which cannot be read ({error.strerror}).") from error


def untrusted(error: BaseException | None) -> str:
    """Return why the server's certificate is not trusted, and what to do, where that lies behind an error; else ""."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    if error is None:
        return ""
    why = f"CERTIFICATE_VERIFY_FAILED, {error.verify_message}"
    if error.verify_code not in _UNKNOWN:
        return f"Its certificate is not trusted: {why}."
    there = "does not hold" if os.environ.get(VARIABLE) else "is to name the certificate of"
    return f"Its certificate is not trusted ({why}): {VARIABLE} {there} the authority that signed it."
