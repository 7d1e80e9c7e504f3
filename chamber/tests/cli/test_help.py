"""What `chamber` says of itself, and that it says it without loading what only commands need."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from chamber import __version__
from chamber.cli import SECTIONS, main

COMMANDS = [name for section in SECTIONS.values() for name in section]


def test_help_loads_nothing_that_only_commands_need() -> None:
    code = "import sys; from chamber.cli import main; main(['--help'], standalone_mode=False); print(*sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    *page, loaded = done.stdout.splitlines()
    assert "Exit status:" in "\n".join(page)
    assert not {"django", "httpx", "rich", "yaml", "asyncio", "chamber.settings"} & set(loaded.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_where_the_table_says_and_explains_itself(name: str) -> None:
    result = CliRunner().invoke(main, [name, "--help"])

    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"Usage: main {name}")


def test_a_misspelt_command_names_the_nearest() -> None:
    result = CliRunner().invoke(main, ["sumbit"])

    assert result.exit_code == 2
    assert "There is no command 'sumbit'. Did you mean 'submit'?" in result.stderr


def test_the_version_is_the_projects() -> None:
    assert CliRunner().invoke(main, ["--version"]).output == f"chamber {__version__}\n"


def test_completion_offers_commands_and_their_options() -> None:
    words = {"_MAIN_COMPLETE": "bash_complete", "COMP_WORDS": "main can", "COMP_CWORD": "1"}
    assert CliRunner().invoke(main, env=words, prog_name="main").output == "plain,cancel\n"
