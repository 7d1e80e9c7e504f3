"""What answers requests is loaded before a part begins to serve, not by the first request of each of its processes."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import chamber.scim
from chamber.cli import main
from chamber.oidc.providers import Provider
from chamber.serving import live, start, web
from rig.deployment import ROOT
from rig.servers import free_port

PROTOCOL = "chamber.scim.protocol"
GIVEN = {"id": "acme", "name": "Acme", "issuer": "https://id.acme.example", "client_id": "chamber"}


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


SCRIPT = """
import gc, sys
gc.callbacks.append(lambda phase, info: walks.append(info["generation"]) if phase == "start" else None)
walks = []
from chamber.serving import start
walks.clear()
start.load()
walked, kept = walks.count(2), gc.get_freeze_count()
import chamber.urls
print("scim2_models" in sys.modules, walked, kept > 100_000, gc.isenabled())
"""


def test_a_process_loads_no_models_of_scim_and_walks_over_nothing_of_what_it_loads() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False 0 True True\n"


@pytest.mark.parametrize("token", ["", "a-token-that-an-operator-made-0123456789"])
def test_the_protocol_of_scim_is_loaded_before_a_part_serves_where_a_provider_uses_it(
    token: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.IDENTITY_PROVIDERS = (Provider.model_validate({**GIVEN, "scim_token": token}),)
    monkeypatch.delitem(sys.modules, PROTOCOL, raising=False)
    monkeypatch.delattr(chamber.scim, "protocol", raising=False)
    start.load_pages()
    assert (PROTOCOL in sys.modules) is bool(token)
