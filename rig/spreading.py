"""How tests are spread over several processes: what shares a server stays together, what takes long begins first.

A file is run by one process, so what its tests share is started once; and no process is left with a long file when the
others have ended.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    import pytest

DEPLOYMENT_THAT_STOPS = "the deployment that stops"
"""All that needs a deployment takes one process longer than all else takes the others: these files have another one."""
TOGETHER = {
    "tests/test_deployment_doctor.py": "",  # has a deployment of its own
    "tests/test_deployment_sentinel.py": "",  # likewise
    "tests/test_deployment.py": DEPLOYMENT_THAT_STOPS,
    "tests/test_deployment_outages.py": DEPLOYMENT_THAT_STOPS,
    "tests/test_deployment_stopping.py": DEPLOYMENT_THAT_STOPS,
    "tests/test_deployment": "the deployment",
    "tests/test_documented_commands.py": "the deployment",
    "tests/test_compose_file.py": "the deployment",
    "tests/test_demo.py": "the demo",
    "tests/test_browser": "the demo",
    "tests/test_command_line.py": "the demo",
}
"""What a file shares with others, by the beginning of its name; the first that fits holds."""
FIRST = (
    "tests/test_deployment",
    "tests/test_documented_commands.py",
    "tests/test_compose_file.py",
    "tests/test_demo.py",
    "tests/",
    "chamber/tests/test_live_shared.py",
    "chamber/tests/test_scripts.py",
    "chamber/tests/cli/test_doctor.py",
    "chamber/tests/test_logs_script.py",
    "chamber/tests/metrics/test_alerts.py",
    "agentlink/tests/kube/",
    "agentlink/tests/",
    "scheduling/tests/",
)
"""The beginnings of files' names, by how long the files take; all others come in any order."""


def unit_of(nodeid: str) -> str:
    """Return with what a test has to run in one process: its file, or what files share."""
    file = nodeid.split("::", 1)[0]
    return next((unit for name, unit in TOGETHER.items() if file.startswith(name)), "") or file


def in_order(items: "Iterable[pytest.Item]") -> "list[pytest.Item]":
    """Return the tests with those first that take long; of the rest the order is left as it is."""

    def place(item: "pytest.Item") -> int:
        return next((n for n, name in enumerate(FIRST) if item.nodeid.startswith(name)), len(FIRST))

    return sorted(items, key=place)


class Spreading(LoadScopeScheduling):
    """Hands out whole units, in the order of the tests."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)
