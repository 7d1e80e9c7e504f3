"""What `docker compose` would say of `deploy/compose.yaml`, and what it would run but for Chamber's own commands."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis as redis_client
import yaml
from django.conf import settings

from chamber import env
from chamber.doctor.environment import OF_COMMANDS
from rig import deployment, servers
from rig.deployment import Deployment
from tests.waiting import until

FOLDER = deployment.COMPOSE.parent
Service = dict[str, Any]


@pytest.fixture
def services() -> dict[str, Service]:
    found: dict[str, Service] = deployment.compose()["services"]
    return found


def test_each_variable_is_one_that_chamber_reads(services: dict[str, Service]) -> None:
    assert settings.configured
    backup = set(re.findall(r"CHAMBER_\w+", (FOLDER / "backup.sh").read_text()))
    read = {*env.asked, *OF_COMMANDS}
    for name, service in services.items():
        own = {key for key in service.get("environment", {}) if key.startswith("CHAMBER_")}
        assert own - (backup if name == "backup" else read) == set(), name


def test_each_variable_of_the_file_env_is_told_of(services: dict[str, Service]) -> None:
    page = (deployment.ROOT / "docs/operations.md").read_text()
    asked = set(re.findall(r"\$\{(\w+)", deployment.COMPOSE.read_text()))
    assert "CHAMBER_HOSTS" in asked
    assert [name for name in sorted(asked) if name not in page] == []


def _names(said: Any) -> set[str]:
    return set(said)


def test_each_volume_network_and_secret_is_declared_and_used(services: dict[str, Service]) -> None:
    read = deployment.compose()
    mounted = {volume.split(":")[0] for each in services.values() for volume in each.get("volumes", ())}
    assert {volume for volume in mounted if volume[0] not in "./"} == set(read["volumes"])
    for kind in ("networks", "secrets"):
        assert set().union(*(_names(each.get(kind, ())) for each in services.values())) == set(read[kind])


def test_each_fixed_address_is_of_its_network_and_of_one_service(services: dict[str, Service]) -> None:
    given = [
        address["ipv4_address"]
        for each in services.values()
        if isinstance(each.get("networks"), dict)
        for address in each["networks"].values()
        if address
    ]
    [subnet] = deployment.compose()["networks"]["front"]["ipam"]["config"]
    assert len(set(given)) == len(given) > 0
    assert {".".join(address.split(".")[:3]) + ".0/24" for address in given} == {subnet["subnet"]}
    assert services["web"]["environment"]["CHAMBER_TRUSTED_PROXIES"] == subnet["subnet"]


def test_what_a_service_waits_for_is_there_and_can_come_true(services: dict[str, Service]) -> None:
    waited: set[tuple[str, str]] = set()
    for each in services.values():
        after = each.get("depends_on", {})
        pairs = after.items() if isinstance(after, dict) else ((name, {}) for name in after)
        waited |= {(name, said.get("condition", "service_started")) for name, said in pairs}
    assert {name for name, _ in waited} <= services.keys()
    assert all("healthcheck" in services[name] for name, how in waited if how == "service_healthy")
    ends = {name for name, how in waited if how == "service_completed_successfully"}
    assert {services[name]["restart"] for name in ends} == {"no"}


def test_who_waits_in_no_profile_needs_no_profile(services: dict[str, Service]) -> None:
    for name, each in services.items():
        for other in each.get("depends_on", ()):
            assert set(services[other].get("profiles", ())) <= set(each.get("profiles", ())), name


def test_each_image_of_others_has_a_version(services: dict[str, Service]) -> None:
    images = {each["image"] for each in services.values() if "build" not in each}
    assert {image for image in images if not re.fullmatch(r"[\w/.-]+:v?\d[\w.]*", image)} == set()


def test_the_backup_s_loop_is_one_that_a_shell_reads_and_its_script_may_be_run(
    services: dict[str, Service],
) -> None:
    shell, option, loop = services["backup"]["command"]
    done = subprocess.run([shell, "-n", option, loop], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert os.access(FOLDER / "backup.sh", os.X_OK)
    assert "./backup.sh:/backup.sh:ro" in services["backup"]["volumes"]
    assert loop.split("if ")[1].split(" ")[0] == "/backup.sh"


# Health checks


@pytest.fixture(scope="module")
def stores() -> Iterator[dict[str, tuple[servers.Server, dict[str, str]]]]:
    """PostgreSQL, with how the image's programs find it."""
    with servers.postgresql() as database:
        yield {"db": (database, {"PGHOST": "127.0.0.1", "PGPORT": str(database.port)})}


PASSWORD = "of-the-file-alone"


def in_shell(command: str, secret: Path, port: int) -> list[str]:
    """Return a command of the file's Redis that finds its secret, and the server, here."""
    secret.write_text(PASSWORD)
    text = command.replace("$$", "$").replace("/run/secrets/redis_password", str(secret))
    text = (
        text.replace("redis-cli", f"redis-cli -p {port}")
        .replace("docker-entrypoint.sh ", "")
        .replace("redis-server -", f"redis-server - --port {port}")
    )
    return ["sh", "-c", text]


@pytest.mark.redis
def test_redis_asks_for_the_password_of_its_secret(services: dict[str, Service], tmp_path: Path) -> None:
    port, secret = servers.free_port(), tmp_path / "password"
    service = services["redis"]
    assert service["command"][:2] == ["sh", "-c"]
    command, check = (
        in_shell(text, secret, port) for text in (service["command"][2], service["healthcheck"]["test"][1])
    )
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            until(lambda: subprocess.run(check, capture_output=True, check=False).returncode == 0)
            with redis_client.Redis(port=port) as stranger, pytest.raises(redis_client.AuthenticationError):
                stranger.ping()
            with redis_client.Redis(port=port, password=PASSWORD) as known:
                assert known.ping()
            arguments = subprocess.run(
                ["ps", "-e", "-o", "args"], capture_output=True, text=True, check=True
            ).stdout
            assert PASSWORD not in arguments
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    wrong = in_shell(service["healthcheck"]["test"][1], secret, port)
    assert subprocess.run(wrong, capture_output=True, check=False).returncode != 0


def checked(command: list[str], environment: dict[str, str]) -> int:
    """Return with which status a health check ends here; `CMD` runs a program without a shell."""
    assert command[0] == "CMD"
    program, *words = command[1:]
    folder = servers.postgresql_folder()
    assert folder is not None
    found = sys.executable if program == "python" else shutil.which(program, path=f"{folder}:{os.defpath}")
    assert found is not None, program
    port = environment.get("PORT", "")
    here = [word.replace("localhost:8000", f"127.0.0.1:{port}") for word in words]
    whole = {**os.environ, **environment}
    done = subprocess.run([found, *here], env=whole, capture_output=True, timeout=60, check=False)
    return done.returncode


@pytest.mark.postgres
@pytest.mark.parametrize("name", ["db"])
def test_the_health_check_of_a_store_tells_whether_it_answers(
    services: dict[str, Service], stores: dict[str, tuple[servers.Server, dict[str, str]]], name: str
) -> None:
    server, environment = stores[name]
    command = services[name]["healthcheck"]["test"]
    assert checked(command, environment) == 0
    server.stop()
    assert checked(command, environment) != 0


@pytest.mark.postgres
@pytest.mark.redis
@pytest.mark.usefixtures("mended")
def test_the_health_check_of_web_and_live_tells_whether_it_is_ready(
    services: dict[str, Service], team: Deployment
) -> None:
    for name in ("web", "web-2", "live", "live-2"):
        environment = {"PORT": team.services[name.removesuffix("-2")].environment["CHAMBER_LISTEN_PORT"]}
        assert checked(services[name]["healthcheck"]["test"], environment) == 0
    nobody = {"PORT": str(servers.free_port())}
    assert checked(services["web"]["healthcheck"]["test"], nobody) != 0


# The profile `monitoring`


@pytest.mark.promtool
def test_prometheus_takes_its_configuration_with_its_rules(
    services: dict[str, Service], tmp_path: Path
) -> None:
    here = {said.split(":")[1]: FOLDER / said.split(":")[0] for said in services["prometheus"]["volumes"]}
    [file] = [word.split("=")[1] for word in services["prometheus"]["command"] if "config.file" in word]
    text = here[file].read_text()
    (tmp_path / "token").write_text("x")
    for inside, outside in [*here.items(), ("/run/secrets/metrics_token", tmp_path / "token")]:
        text = text.replace(inside, str(outside))
    (tmp_path / "prometheus.yaml").write_text(text)
    command = ["promtool", "check", "config", str(tmp_path / "prometheus.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 rule files found" in done.stdout


def test_grafana_finds_its_dashboard_and_its_source(services: dict[str, Service]) -> None:
    here = {said.split(":")[1]: FOLDER / said.split(":")[0] for said in services["grafana"]["volumes"][:3]}
    provided = {path: yaml.safe_load(file.read_text()) for path, file in here.items() if "provision" in path}
    assert {path.split("/")[4] for path in provided} == {"dashboards", "datasources"}
    [boards] = [read["providers"] for path, read in provided.items() if "/dashboards/" in path]
    [sources] = [read["datasources"] for path, read in provided.items() if "/datasources/" in path]
    assert {each["options"]["path"] for each in boards} == {
        str(Path(path).parent) for path in here if path.endswith(".json")
    }
    assert {each["url"] for each in sources} == {"http://prometheus:9090"}
    assert "monitoring" in set(services["prometheus"]["networks"]) & set(services["grafana"]["networks"])
