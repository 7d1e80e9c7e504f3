"""Whose certificates the command line believes, and what it says of one that it does not."""

import ssl

from chamber.cli.status import Exit, Failure

_UNKNOWN_AUTHORITY = frozenset({2, 18, 19, 20, 21})
"""OpenSSL's numbers for a chain that ends at nobody whom we believe, and for a certificate that vouches for itself."""
_EXPIRED, _NOT_YET, _OTHER_NAME = 10, 9, frozenset({62, 64})


def trust(ca: str) -> ssl.SSLContext | bool:
    """Return what a connection is checked by: the authority in the file `ca`, and no other, or the system's.

    Raises `Failure` where the file is none that holds certificates.
    """
    if not ca:
        return True
    try:
        return ssl.create_default_context(cafile=ca)
    except ssl.SSLError as error:
        raise Failure(
            f"{ca} holds no certificate; name a file in PEM form, which begins with BEGIN CERTIFICATE.",
            Exit.USAGE,
        ) from error
    except OSError as error:
        raise Failure(
            f"The authority's certificate {ca} cannot be read ({error.strerror}). Name it with "
            "`chamber login --ca FILE`, or in CHAMBER_CA.",
            Exit.USAGE,
        ) from error


def certificate_error(error: BaseException | None) -> ssl.SSLCertVerificationError | None:
    """Return why the server's certificate was refused, where that is what lies behind an error."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return error
        error = error.__cause__ or error.__context__
    return None


def distrusted(url: str, error: ssl.SSLCertVerificationError) -> Failure:
    """Return what is wrong with a server's certificate, and what to do about it."""
    if error.verify_code in _UNKNOWN_AUTHORITY:
        return Failure(
            f"The certificate of {url} is signed by an authority that this machine does not know. If it is one of your "
            "own, get its certificate from whoever runs the server, and sign in with `chamber login --ca FILE` (or set "
            "CHAMBER_CA)."
        )
    if error.verify_code == _EXPIRED:
        return Failure(f"The certificate of {url} has expired. Whoever runs the server must renew it.")
    if error.verify_code == _NOT_YET:
        return Failure(f"The certificate of {url} is not valid yet. Is this machine's clock right?")
    if error.verify_code in _OTHER_NAME:
        return Failure(f"The certificate of {url} is for another name. Use the name that it was made for.")
    return Failure(f"The certificate of {url} cannot be trusted: {error.verify_message}.")
