"""Whether people sign in as the organisation asks, and its admins as they should."""

from collections.abc import Iterator

from chamber.doctor.finding import Fact
from chamber.factors.reading import lack_factor
from chamber.requirement import lacking
from chamber.words import count, plural
from teams.members import org_admins
from teams.sign_in import policy


def second_factors() -> Iterator[Fact]:
    """Tell how many lack a second factor: of all, where one is required, and of the organisation admins."""
    required_from = policy().required_from
    if required_from is not None and (some := lacking().count()):
        yield Fact(
            f"{count(some, 'person', 'people')} {plural(some, 'lacks', 'lack')} the second factor that is required "
            f"from {required_from:%Y-%m-%d %H:%M} UTC on; `chamber people list --without-factor` names them."
        )
    admins = lack_factor(org_admins()).count()
    if admins:
        yield Fact(
            f"{count(admins, 'organisation admin')} {plural(admins, 'has')} no second factor: whoever learns such a "
            "password is admin of all."
        )
