"""The compose file's very commands as processes: they come up, work together, lose nothing when killed, and stop."""

import re

import psycopg
import pytest
import yaml

from rig import deployment
from rig.deployment import Deployment
from tests.deployment_fixtures import CLUSTER, PARTS, becomes, start_all, status_of, stop_all, submit
from tests.waiting import until

pytestmark = [pytest.mark.postgres, pytest.mark.redis, pytest.mark.usefixtures("mended")]


def test_the_compose_file_has_these_services_and_no_others() -> None:
    services = deployment.compose()["services"]
    commands = {
        name: " ".join(service["command"]) for name, service in services.items() if "build" in service
    }
    always = {name for name, service in services.items() if "profiles" not in service}
    assert always == {*PARTS, "web-2", "live-2", "db", "redis", "migrate", "proxy"}
    profiles = {name: service["profiles"] for name, service in services.items() if "profiles" in service}
    assert profiles == {
        "agent": ["example"],
        "backup": ["backup"],
        "prometheus": ["monitoring"],
        "grafana": ["monitoring"],
    }
    assert commands == {
        "migrate": "chamber migrate --wait 60",
        "web": "chamber serve --part web",
        "web-2": "chamber serve --part web",
        "live": "chamber serve --part live",
        "live-2": "chamber serve --part live",
        "worker": "chamber worker --queue duties",
        "scheduler": "chamber worker --queue scheduling",
        "beat": "chamber beat",
        "agent": (
            "chamber agent --simulate /etc/chamber/nodes.json --state-file /var/lib/chamber/example.json "
            "--token-file /run/secrets/agent_token"
        ),
    }


def test_the_proxy_knows_each_process_by_an_address_that_stays() -> None:
    services = deployment.compose()["services"]
    addresses = {
        name: services[name]["networks"]["front"]["ipv4_address"]
        for name in ("web", "web-2", "live", "live-2")
    }
    assert len(set(addresses.values())) == 4
    assert dict(line.split(":") for line in services["proxy"]["extra_hosts"]) == addresses
    named = re.findall(r"server ([\w-]+):8000", (deployment.COMPOSE.parent / "upstreams.conf").read_text())
    assert set(named) == set(addresses)


def test_the_name_that_people_use_must_be_set_and_is_kept_in_a_file() -> None:
    said = deployment.compose()["x-chamber"]["environment"]["CHAMBER_HOSTS"]
    assert re.match(r"\$\{CHAMBER_HOSTS:\?[^}]*\.env[^}]*\}", said), (
        "a restart without it falls back to nothing"
    )
    assert "/deploy/.env\n" in (deployment.ROOT / ".gitignore").read_text()


def test_what_compose_mounts_is_there() -> None:
    read = deployment.compose()
    folder = deployment.COMPOSE.parent
    mounted = {
        volume.split(":")[0]
        for service in read["services"].values()
        for volume in service.get("volumes", [])
        if volume.startswith("./")
    }
    made = {"./tls", "./backups"}  # by the operator, before the first start
    assert made <= mounted
    assert [path for path in sorted(mounted - made) if not (folder / path).is_file()] == []
    wanted = {name for service in read["services"].values() for name in service.get("secrets", [])}
    assert wanted == set(read["secrets"])
    page = (deployment.ROOT / "docs" / "operations.md").read_text()
    assert [name for name in wanted if name not in page] == []


def test_prometheus_scrapes_the_web_part_by_its_token_and_watches_the_rules() -> None:
    services, folder = deployment.compose()["services"], deployment.COMPOSE.parent
    written = yaml.safe_load((folder / "monitoring" / "prometheus.yaml").read_text())
    [job] = written["scrape_configs"]
    assert job["job_name"] == "chamber", "the rules name it so"
    assert job["static_configs"] == [{"targets": ["web:8000"]}]
    assert job["authorization"]["credentials_file"] == "/run/secrets/metrics_token"
    assert ",web" in services["web"]["environment"]["CHAMBER_HOSTS"], "else the scrape's Host is refused"
    mounted = {volume.split(":")[1] for volume in services["prometheus"]["volumes"]}
    assert set(written["rule_files"]) <= mounted
    assert set(services["prometheus"]["networks"]) & set(services["grafana"]["networks"])


def test_every_service_gets_longer_to_stop_than_it_takes() -> None:
    """Compose kills after `stop_grace_period`; the commands' own grace is 20 s."""
    services = deployment.compose()["services"]
    assert {services[name]["stop_grace_period"] for name in (*PARTS, "web-2", "live-2")} == {"30s"}


def test_web_and_live_say_that_they_are_ready(team: Deployment) -> None:
    for name in ("web", "live"):
        team.services[name].wait_for("/readyz")


def test_what_is_submitted_runs_and_completes(team: Deployment) -> None:
    slug = submit(team)
    becomes(team, slug, "completed")
    with team.api("rosa") as api:
        events = api.get(f"workloads/{slug}/events/").json()["results"]
    assert "running" in [event["data"]["status"] for event in events if event["kind"] == "status"]


@pytest.mark.parametrize("name", [*PARTS, "agent"])
def test_a_part_that_is_killed_and_started_again_loses_nothing(team: Deployment, name: str) -> None:
    part = team.agents[CLUSTER] if name == "agent" else team.services[name]
    long, short = submit(team, command=["sleep", "600"]), submit(team, command=["sleep", "3"])
    becomes(team, long, "running")
    part.kill()
    meanwhile = None if name == "web" else submit(team)
    part.start()
    becomes(team, short, "completed")
    if meanwhile is not None:
        becomes(team, meanwhile, "completed")
    assert status_of(team, long) == "running"
    with team.api("rosa") as api:
        attempts = api.get(f"workloads/{long}/attempts/").json()["results"]
        assert len(attempts) == 1, "a killed process costs no attempt"
        assert api.post(f"workloads/{long}/cancel/").status_code == 200


def test_each_part_stops_by_itself_when_asked_and_leaves_no_connection_and_no_fault(team: Deployment) -> None:
    assert dict(zip(PARTS, stop_all(team), strict=True)) == dict.fromkeys(PARTS, 0)
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'chamber'"

    def left() -> bool:
        with psycopg.connect(team.database.url, autocommit=True) as connection:
            return connection.execute(query).fetchone() == (0,)

    until(left)
    start_all(team)
    becomes(team, submit(team), "completed")
    for name in PARTS:
        assert "Traceback" not in team.services[name].printed()


def test_all_parts_stopped_at_once_start_again_where_they_were(team: Deployment) -> None:
    slug = submit(team, command=["sleep", "600"])
    becomes(team, slug, "running")
    team.stop()
    team.start()
    team.agents[CLUSTER].start()
    until(lambda: connected(team))
    assert status_of(team, slug) == "running"
    becomes(team, submit(team), "completed")


def connected(team: Deployment) -> bool:
    with team.api("olga") as api:
        return bool(api.get(f"clusters/{CLUSTER}/").json()["connected"])
