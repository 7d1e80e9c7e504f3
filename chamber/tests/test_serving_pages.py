"""What answers requests is loaded before a part begins to serve, not by the first request of each of its processes."""

import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from chamber.cli import main
from chamber.serving import live, start, web
from rig.servers import free_port


@pytest.mark.parametrize("part", ["web", "live", "all"])
def test_all_pages_are_loaded_before_a_part_serves(
    part: str, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"pages_of_{part}"
    (tmp_path / f"{name}.py").write_text("urlpatterns = []\n")
    monkeypatch.syspath_prepend(tmp_path)
    settings.ROOT_URLCONF = name
    loaded: list[bool] = []

    def serves(*_: object, **__: object) -> None:
        loaded.append(name in sys.modules)

    monkeypatch.setattr(start, "prepare", lambda **_: None)
    for served in (web, live):
        monkeypatch.setattr(served, "serve", serves)
    done = CliRunner().invoke(main, ["serve", "--part", part, "--port", str(free_port())])
    assert (done.exit_code, loaded) == (0, [True]), done.output
