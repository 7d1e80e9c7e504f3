"""Fills a new database with the demo's organisation, without its clusters, and writes a token of each person.

    python -m rig.organisation tokens.json

Run with the environment of the deployment. Everybody's password is `PASSWORD`: the demo's is served to nobody else.
"""

import json
import sys
from pathlib import Path

PASSWORD = "of-the-rig-alone"  # noqa: S105 - of servers that are thrown away


def main(tokens: Path) -> None:
    """Make tree, people, pools and shares, and write `{user name: token}`."""
    import django

    django.setup()
    from django.db import transaction

    from chamber.demo.organisation import make_organisation
    from chamber.models import Scope, User
    from chamber.tokens import create_token

    with transaction.atomic():
        make_organisation(PASSWORD)
    made = {
        user.username: create_token(user=user, name="rig", scope=Scope.ADMIN, days=30)[1]
        for user in User.objects.all()
    }
    tokens.write_text(json.dumps(made))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
