"""Whether what is stored encrypted can be read with the keys that are set."""

from collections.abc import Iterator

from chamber import encrypted
from chamber.doctor.finding import DoctorFinding, Fact
from chamber.encrypted import By
from chamber.words import count
from workloads.credentials import keys


def stored() -> Iterator[DoctorFinding | Fact]:
    """Look by which keys the secrets of second factors are encrypted."""
    found = encrypted.secrets()
    if lost := found[By.UNKNOWN]:
        yield DoctorFinding(
            f"{count(lost, 'stored secret')} cannot be read: another key encrypted {'it' if lost == 1 else 'them'}.",
            "Add the key of before to CHAMBER_ENCRYPTION_KEYS (or set CHAMBER_SECRET_KEY to it). Where it is lost, "
            "have the second factors that cannot be read removed, by `chamber people factors NAME --reset`.",
        )
    if old := found[By.OLDER]:
        yield Fact(
            f"{count(old, 'stored secret')} {'is' if old == 1 else 'are'} encrypted with an older key; "
            "`chamber reencrypt` renews that."
        )


def credentials() -> Iterator[DoctorFinding | Fact]:
    """Look by which keys credentials are encrypted, and whether there is one to make any."""
    found = encrypted.credentials()
    total = found.total()
    if not keys.is_there():
        if not total:
            yield Fact("There is no key for credentials: none can be made before there is one.")
            return
        yield DoctorFinding(
            f"{count(total, 'credential')} cannot be read: there is no key for credentials.",
            "Name the file with the key of before in CHAMBER_CREDENTIALS_KEY_FILE. Where it is lost, "
            f"{keys.ADVICE}, and have the credentials given other values.",
        )
        return
    if lost := found[By.UNKNOWN]:
        yield DoctorFinding(
            f"{count(lost, 'credential')} cannot be read: another key encrypted {'it' if lost == 1 else 'them'}.",
            "Add the key of before to the file of CHAMBER_CREDENTIALS_KEY_FILE, after the newest one. Where it is "
            "lost, have the credentials given other values.",
        )
    if old := found[By.OLDER]:
        yield Fact(
            f"{count(old, 'credential')} {'is' if old == 1 else 'are'} encrypted with an older key; "
            "`chamber reencrypt` renews that."
        )
