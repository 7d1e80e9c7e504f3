"""Whether what is stored encrypted can be read with the keys that are set."""

from collections.abc import Iterator

from chamber import encrypted
from chamber.doctor.finding import DoctorFinding, Fact
from chamber.encrypted import By
from chamber.words import count


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
