"""Time zones: their names are looked up once, and there are some on a machine that has none."""

import os
import subprocess
import sys
from unittest.mock import patch

from teams import time_zones
from teams.models import PoolPolicy

WITHOUT_A_SYSTEMS = (
    "from teams.time_zones import is_time_zone; from scheduling.engine.model.peak import in_zone; "
    "assert is_time_zone('Europe/Berlin'); print(in_zone(0, 'UTC'))"
)


def test_reading_a_policy_does_not_look_through_the_zones_of_the_system() -> None:
    assert time_zones.is_time_zone("Europe/Berlin")
    with patch.object(time_zones, "available_timezones", side_effect=AssertionError):
        assert PoolPolicy.model_validate({"peak_zone": "Asia/Tokyo"}).peak_zone == "Asia/Tokyo"
        assert not time_zones.is_time_zone("Mars/Olympus")


def test_a_machine_without_time_zones_has_those_of_the_package() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_A_SYSTEMS],
        env=os.environ | {"PYTHONTZPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("1970-01-01 00:00 UTC\n", "")
