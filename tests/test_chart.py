"""The chart of `deploy/`: what the real helm makes of it, and what a real API server says to that."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import chamber
from agentlink.agent.rights import MAKES_NAMESPACES, Where, rules
from chamber.cli.commands.operate import agent
from rig import charts, deployment, servers
from rig.charts import HelmFailed, rendered
from rig.namespaces import Json, Namespace
from rig.namespaces import namespace as another_namespace
from tests.chart_values import (
    AGENT,
    OPERATORS,
    OPTIONS,
    PODS,
    RUN_PODS,
    SERVER,
    SETTINGS,
    WATCHED,
    agent_with,
    containers,
    of_kind,
    pods,
    server_with,
)

pytestmark = pytest.mark.kube
SELECTOR = {"app.kubernetes.io/name": "chamber", "app.kubernetes.io/instance": "chamber"}
PLURALS = {"NetworkPolicy": "networkpolicies", "Ingress": "ingresses"}


EVERYTHING: Json = {
    **agent_with(**OPTIONS, pods=PODS),
    **server_with(settings=SETTINGS, pods=PODS, metrics=WATCHED),
    "image": {"repository": "chamber", "digest": f"sha256:{'0' * 64}", "pullSecrets": ["registry"]},
    "authorities": {"secret": "own"},
    "httpProxy": {"http": "http://proxy.test:3128", "https": "http://proxy.test:3129"},
    "networkPolicy": {"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]},
}


@pytest.mark.parametrize(
    "values",
    [AGENT, SERVER, AGENT | SERVER, EVERYTHING],
    ids=["agent", "server", "both", "everything"],
)
def test_helm_finds_nothing_to_say_about_it(values: Json) -> None:
    assert "0 chart(s) failed" in charts.helm("lint", "--strict", str(charts.CHART), values=values)


REFUSED: dict[str, Json] = {
    "There is nothing to install": {},
    "agent.url is missing": {"agent": {"enabled": True}},
    "'/agent/url'": {"agent": {"enabled": True, "url": "chamber.example.org"}},
    "'/agent/replicas': minimum": {"agent": {**AGENT["agent"], "replicas": 0}},
    "additional properties 'repicas' not allowed": {"agent": {**AGENT["agent"], "repicas": 1}},
    'must not be "chamber", the agent\'s own namespace': {
        "agent": {**AGENT["agent"], "workloadNamespace": "chamber"}
    },
    'agent.boundNamespaces names "chamber-workloads"': {
        "agent": {**AGENT["agent"], "boundNamespaces": ["nlp", "chamber-workloads"]}
    },
    '"kube-system" cannot be a namespace of workloads': {
        "agent": {**AGENT["agent"], "boundNamespaces": ["kube-system"]}
    },
    '"default" cannot be a namespace of workloads': {
        "agent": {**AGENT["agent"], "workloadNamespace": "default"}
    },
    "server.hosts is empty": {"server": {**SERVER["server"], "hosts": []}},
    "server.trustedProxies is empty": {"server": {**SERVER["server"], "trustedProxies": []}},
    "server.database.url has no password": {
        "server": {**SERVER["server"], "database": {"url": "postgresql://chamber@db/chamber"}}
    },
    "server.redis.url has no password": {
        "server": {**SERVER["server"], "redis": {"url": "redis://chamber-redis:6379/0"}}
    },
    "server.ingress.tlsSecret is missing": {"server": {**SERVER["server"], "ingress": {"enabled": True}}},
    "'/image/digest': 'latest' does not match pattern": AGENT
    | {"image": {"repository": "chamber", "digest": "latest"}},
    "authorities names a ConfigMap and a Secret": AGENT | {"authorities": {"configMap": "a", "secret": "b"}},
    "'/httpProxy/https': 'proxy:3128' does not match": AGENT | {"httpProxy": {"https": "proxy:3128"}},
    "'/agent/logLevel': value must be one of": agent_with(logLevel="info"),
    "'/agent/deviceClasses/gpu': ": agent_with(deviceClasses={"gpu": "No Class"}),
    "'/agent/exporters/0': 'dcgm' does not match": agent_with(exporters=["dcgm"]),
    "'/agent/uninstall/timeoutSeconds': minimum": agent_with(uninstall={"timeoutSeconds": 1}),
    "additional properties 'extraenv' not allowed": agent_with(pods={"extraenv": []}),
    "'/server/settings/keepDays': minimum: got 7, want 30": server_with(settings={"keepDays": 7}),
    "additional properties 'keepdays' not allowed": server_with(settings={"keepdays": 60}),
    "server.mail.urlKey needs server.publicUrl": server_with(mail={"urlKey": "mail_url"}),
    "'/server/publicUrl': ": server_with(publicUrl="chamber.example.org"),
    "'/server/trustedProxies/0': 'anyOf' failed": {
        "server": {**SERVER["server"], "trustedProxies": ["10.0.0.0/33"]}
    },
    "'/server/hosts/0': 'chamber.example.org.' does not match": {
        "server": {**SERVER["server"], "hosts": ["chamber.example.org."]}
    },
    "'/server/metrics/tokenKey': 'a b' does not match": server_with(metrics={"tokenKey": "a b"}),
    "'/server/redis/url': 'sentinel://a/b' does not match": server_with(redis={"url": "sentinel://a/b"}),
    "server.metrics.serviceMonitor needs server.metrics.tokenKey": server_with(
        metrics={"serviceMonitor": {"enabled": True}}
    ),
    "names CHAMBER_LOG_LEVEL (extraEnv), which the chart sets itself": server_with(
        pods={"extraEnv": [{"name": "CHAMBER_LOG_LEVEL", "value": "DEBUG"}]}
    ),
    "server.pods, or server.web.pods, names TZ twice (extraEnv)": server_with(
        web={"pods": {"extraEnv": [{"name": "TZ", "value": "a"}, {"name": "TZ", "value": "b"}]}}
    ),
    "agent.pods names CHAMBER_URL (extraEnv), which the chart": agent_with(
        pods={"extraEnv": [{"name": "CHAMBER_URL", "value": "https://x.example.org"}]}
    ),
    "agent.pods names SSL_CERT_FILE (extraEnv), which the chart": {
        **agent_with(pods={"extraEnv": [{"name": "SSL_CERT_FILE", "value": "/x"}]}),
        "authorities": {"configMap": "own"},
    },
    "names token (extraVolumes), which the chart": agent_with(
        pods={"extraVolumes": [{"name": "token", "emptyDir": {}}]}
    ),
    "names /run/secrets/chamber (extraVolumeMounts), which the chart": server_with(
        beat={"pods": {"extraVolumeMounts": [{"name": "tmp", "mountPath": "/run/secrets/chamber"}]}}
    ),
    'server.proxy.pods, mounts the volume "more" (extraVolumeMounts), which is not there': server_with(
        proxy={"pods": {"extraVolumeMounts": [{"name": "more", "mountPath": "/more"}]}}
    ),
    "server.migrate.pods, sets the label app.kubernetes.io/component": server_with(
        migrate={"pods": {"labels": {"app.kubernetes.io/component": "mine"}}}
    ),
    "additional properties 'operatr' not allowed": agent_with(pods={"tolerations": [{"operatr": "Exists"}]}),
    "additional properties 'nodeafinity' not allowed": agent_with(pods={"affinity": {"nodeafinity": {}}}),
    "'/server/web/resources/limits/memory': 'lots' does not match": server_with(
        web={"resources": {"limits": {"memory": "lots"}}}
    ),
    "'/networkPolicy/from/0': additional properties 'podSelectr'": AGENT
    | {"networkPolicy": {"from": [{"podSelectr": {}}]}},
    "server.web.autoscaling.minReplicas is 4, above its maxReplicas, 3.": server_with(
        web={"autoscaling": {"enabled": True, "minReplicas": 4, "maxReplicas": 3}}
    ),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_values_that_cannot_be_are_refused_with_a_sentence(sentence: str) -> None:
    with pytest.raises(HelmFailed, match=re.escape(sentence)):
        rendered(REFUSED[sentence])


def test_addresses_that_can_be_are_taken() -> None:
    proxies = [
        "10.244.0.0/16",
        "255.9.10.199",
        "0.0.0.0/0",
        "2001:db8::/32",
        "fd00::1/128",
        "::1",
        "::ffff:10.0.0.1",
    ]
    sentinels = "redis+sentinel://:s@one:26379,two/main/0"
    values = {"server": {**SERVER["server"], "trustedProxies": proxies, "redis": {"url": sentinels}}}
    values["server"]["hosts"] = ["chamber.example.org", "web", "10.0.0.7"]
    made = containers(rendered(values))["web"]
    given = {said["name"]: said.get("value") for said in made["env"]}
    assert (given["CHAMBER_TRUSTED_PROXIES"], given["CHAMBER_REDIS"]) == (",".join(proxies), sentinels)


def test_its_version_is_the_project_s_and_its_users_those_of_the_image() -> None:
    chart = yaml.safe_load((charts.CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == chamber.__version__
    made = [template["spec"] for template in pods(rendered(AGENT | SERVER)).values()]
    own = {pod["securityContext"]["runAsUser"] for pod in made if pod["containers"][0]["name"] != "proxy"}
    assert own == {10001}
    assert "USER 10001\n" in (deployment.ROOT / "deploy" / "Dockerfile").read_text()


def test_the_server_s_parts_run_what_those_of_the_compose_file_run() -> None:
    services = deployment.compose()["services"]
    made = containers(rendered(SERVER))
    for name in ("web", "live", "worker", "scheduler", "beat", "migrate"):
        assert made[name]["command"] == services[name]["command"]
    assert made.keys() == {"web", "live", "worker", "scheduler", "beat", "migrate", "proxy"}


def test_the_agent_s_command_is_one_that_the_command_line_takes() -> None:
    values = {"agent": {**AGENT["agent"], "nodeSelector": {"pool": "research"}}}
    made = containers(rendered(values))["agent"]
    program, name, *words = made["command"]
    assert (program, name) == ("chamber", "agent")
    given = agent.make_context(name, words).params
    assert given["in_cluster"]
    assert given["node_selectors"] == ("pool=research",)
    assert (given["namespace"], given["transport"]) == ("chamber-workloads", "websocket")
    assert [{"name": "health", "containerPort": given["health_port"]}] == made["ports"]


def test_every_setting_of_the_server_is_one_that_the_page_for_operators_explains() -> None:
    explained = (deployment.ROOT / "docs" / "operations.md").read_text()
    given = {
        said["name"].removesuffix("_FILE")
        for container in containers(rendered(SERVER)).values()
        for said in container.get("env", [])
    }
    assert "CHAMBER_DATABASE" in given
    assert not {name for name in given if f"`{name}`" not in explained}


def test_secrets_reach_the_processes_as_files_of_an_existing_secret_and_nothing_else_of_it() -> None:
    for part, container in containers(rendered(SERVER)).items():
        if part != "proxy":
            named = {said["value"] for said in container["env"] if said["name"].endswith("_FILE")}
            assert {Path(path).name for path in named} == {
                "secret_key",
                "database_url",
                "redis_url",
                "metrics_token",
            }
    elsewhere = {"url": "postgresql://chamber@db/chamber", "passwordKey": "password"}
    bell = {"url": "redis://redis:6379/0", "passwordKey": "bell"}
    values = {
        "server": {**SERVER["server"], "database": elsewhere, "redis": bell, "metrics": {"tokenKey": ""}}
    }
    web = of_kind(rendered(values), "Deployment")["chamber-web"]["spec"]["template"]["spec"]
    [secret] = [volume["secret"] for volume in web["volumes"] if "secret" in volume]
    assert {item["key"] for item in secret["items"]} == {"secret_key", "password", "bell"}


def test_every_part_has_probes_resources_a_budget_and_a_network_policy() -> None:
    made = rendered(AGENT | SERVER)
    deployments = of_kind(made, "Deployment")
    assert deployments.keys() == of_kind(made, "PodDisruptionBudget").keys()
    assert deployments.keys() | {"chamber-agent-release"} == of_kind(made, "NetworkPolicy").keys()
    for name, container in containers(made).items():
        assert {"requests", "limits"} <= container["resources"].keys()
        if name not in {"worker", "scheduler", "beat", "migrate", "release"}:
            assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys()
    assert deployments["chamber-agent"]["spec"]["replicas"] == 2


def test_the_agent_s_network_policy_lets_it_reach_the_server_it_is_told_of() -> None:
    def ports(url: str) -> set[int]:
        made = rendered({"agent": {"enabled": True, "url": url}})
        found = {
            name: {said["port"] for rule in body["spec"]["egress"] for said in rule["ports"]}
            for name, body in of_kind(made, "NetworkPolicy").items()
        }
        # The hook before an uninstall tells the server, and asks no exporter.
        assert found["chamber-agent-release"] == found["chamber-agent"] - {9400}
        return found["chamber-agent"]

    assert ports("https://chamber.example.org") == {53, 443, 6443, 9400}
    assert ports("https://chamber.example.org:8443/") == {53, 443, 6443, 8443, 9400}
    assert ports("http://chamber.chamber.svc") == {53, 80, 443, 6443, 9400}


def rights_of(role: Json) -> set[tuple[str, str, str, str]]:
    """Return group, resource, name and verb of all that a role gives; no name where it is all of them."""
    return {
        (group, resource, name, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize("makes_namespaces", [False, True])
def test_its_roles_give_exactly_what_the_agent_s_own_list_says(makes_namespaces: bool) -> None:
    made = rendered({"agent": {**AGENT["agent"], "makesNamespaces": makes_namespaces}})
    values = [MAKES_NAMESPACES] if makes_namespaces else []
    given = {
        Where.CLUSTER: of_kind(made, "ClusterRole")["chamber-agent"],
        Where.OWN: of_kind(made, "Role")["chamber-agent"],
        Where.DEFAULT: of_kind(made, "Role")["chamber-agent-events"],
        Where.WORKLOADS: of_kind(made, "ClusterRole")["chamber-agent-workloads"],
    }
    for where, role in given.items():
        assert rights_of(role) == rights_of({"rules": list(rules(where, *values))}), where


def test_of_the_jobs_of_its_hooks_only_one_that_failed_stays() -> None:
    jobs = of_kind(rendered(AGENT | SERVER), "Job")
    assert jobs.keys() == {"chamber-migrate", "chamber-agent-release"}
    for name, job in jobs.items():
        kept = job["metadata"]["annotations"]["helm.sh/hook-delete-policy"]
        assert kept == "before-hook-creation,hook-succeeded", name


def test_a_release_that_is_called_an_agent_is_not_called_one_twice() -> None:
    assert of_kind(rendered(AGENT, release="chamber-agent"), "Deployment").keys() == {"chamber-agent"}
    assert of_kind(rendered(AGENT, release="gpus"), "Deployment").keys() == {"gpus-chamber-agent"}


def test_rights_where_workloads_run_are_given_in_these_namespaces_and_in_no_others() -> None:
    bound = {"agent": {**AGENT["agent"], "boundNamespaces": ["nlp", "vision"]}}
    made = rendered(bound)
    [wide] = [body for body in made if body["kind"] == "ClusterRoleBinding"]
    assert wide["roleRef"]["name"] == "chamber-agent"
    narrow = [body for body in made if body["kind"] == "RoleBinding"]
    assert {body["metadata"].get("namespace", ""): body["roleRef"]["name"] for body in narrow} == {
        "": "chamber-agent",
        "default": "chamber-agent-events",
        "chamber-workloads": "chamber-agent-workloads",
        "nlp": "chamber-agent-workloads",
        "vision": "chamber-agent-workloads",
    }


def test_web_is_reached_by_the_proxy_and_by_who_scrapes_and_what_listens_to_nobody_by_nobody() -> None:
    policies = of_kind(rendered(SERVER), "NetworkPolicy")
    peers = {name: policy["spec"].get("ingress", []) for name, policy in policies.items()}
    proxy = {"podSelector": {"matchLabels": {**SELECTOR, "app.kubernetes.io/component": "proxy"}}}
    assert peers["chamber-live"] == [{"from": [proxy], "ports": [{"protocol": "TCP", "port": 8000}]}]
    assert peers["chamber-web"][0]["from"] == [proxy, *SERVER["server"]["metrics"]["from"]]
    assert [peers[f"chamber-{part}"] for part in ("worker", "scheduler", "beat")] == [[], [], []]


@pytest.mark.nginx
def test_the_proxy_s_configuration_is_one_that_nginx_takes(tmp_path: Path) -> None:
    written = of_kind(rendered(SERVER), "ConfigMap")["chamber-proxy"]["data"]["nginx.conf"]
    replaced = {
        # Written so from nginx 1.27 on, and looked up at once without it; Debian's is older.
        ":8000 resolve;": ":8000;",
        "chamber-web.chamber.svc.cluster.local": "127.0.0.1",
        "chamber-live.chamber.svc.cluster.local": "127.0.0.1",
        "kube-dns.kube-system.svc.cluster.local": "127.0.0.1",
        "pid /tmp/": f"pid {tmp_path}/",
        "_path /tmp/": f"_path {tmp_path}/",
    }
    for text, here in replaced.items():
        assert text in written
        written = written.replace(text, here)
    file = tmp_path / "nginx.conf"
    file.write_text(written)
    command = [str(servers.nginx_program()), "-t", "-p", str(tmp_path), "-c", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "max-age=2592000; includeSubDomains"),
        ({"hstsSeconds": 60, "hstsSubdomains": False}, "max-age=60"),
        ({"hstsSeconds": 0}, ""),
    ],
)
def test_the_proxy_tells_of_tls_as_the_settings_do(given: dict[str, object], told: str) -> None:
    values = {**SERVER, "server": {**SERVER["server"], "settings": given}}
    written = of_kind(rendered(values), "ConfigMap")["chamber-proxy"]["data"]["nginx.conf"]
    assert f'"https:" "{told}";' in written
    assert "add_header Strict-Transport-Security $chamber_own_hsts always;" in written


def test_the_proxy_sends_the_same_paths_to_the_live_part_as_that_of_the_compose_file() -> None:
    def live(text: str) -> set[str]:
        places = re.findall(
            r"location (\S+ ?\S*) \{\s+proxy_pass http://(?:live|link);", re.sub("#.*", "", text)
        )
        return set(places)

    compose = (deployment.COMPOSE.parent / "nginx.conf").read_text()
    assert live((charts.CHART / "files" / "nginx.conf").read_text()) == live(compose) != set()


@pytest.fixture
def workloads(control_plane: Path) -> Iterator[Namespace]:
    with another_namespace(control_plane) as made:
        yield made


@pytest.mark.parametrize(
    "values",
    [
        {"workloadNamespace": "{own}-all", "boundNamespaces": ["{there}", "{own}-nlp"]},
        {"workloadNamespace": "{own}-nlp", "createWorkloadNamespace": False},
    ],
    ids=["bound", "of-all-teams"],
)
def test_nothing_is_installed_where_a_namespace_for_workloads_is_missing(
    namespace: Namespace, workloads: Namespace, values: Json
) -> None:
    """Its roles could not be made there, and all else would be."""
    text = json.dumps(values).replace("{own}", namespace.name).replace("{there}", workloads.name)
    where = ("--namespace", namespace.name)
    with pytest.raises(HelmFailed, match=f'The namespace "{namespace.name}-nlp" .* is not in the cluster'):
        charts.helm(
            "install",
            namespace.name,
            str(charts.CHART),
            *where,
            kubeconfig=namespace.kubeconfig,
            values=agent_with(**json.loads(text)),
        )
    assert charts.helm("list", "--short", *where, kubeconfig=namespace.kubeconfig).strip() == ""
    assert namespace.items("apps/v1", "deployments") == []


def test_the_api_server_takes_every_object_of_it_and_restricted_namespaces_take_its_pods(
    namespace: Namespace, workloads: Namespace
) -> None:
    strict = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    namespace.admin.merge("v1", "namespaces", namespace.name, strict)
    given = {"workloadNamespace": workloads.name, "createWorkloadNamespace": False}
    scaled = {"autoscaling": {"enabled": True}}
    more = PODS | {"priorityClassName": "system-cluster-critical", "podSecurityContext": {}}
    values = agent_with(**given, **{key: OPTIONS[key] for key in OPTIONS if key not in given}, pods=more)
    values |= server_with(
        settings=SETTINGS, pods=more, web=scaled, live=scaled, metrics=WATCHED | SERVER["server"]["metrics"]
    )
    values |= {"authorities": {"configMap": "own"}, "httpProxy": {"https": "http://proxy.test:3128"}}
    dry = {"dryRun": "All", "fieldValidation": "Strict"}
    for body in rendered(values, namespace=namespace.name):
        if body["kind"] in OPERATORS:
            continue
        plural = PLURALS.get(body["kind"], f"{body['kind'].lower()}s")
        wide = body["kind"].startswith("Cluster")
        where = "" if wide else body["metadata"].get("namespace", namespace.name)
        made = namespace.admin.create(body, plural, where, **dry)
        assert made["metadata"]["uid"]
        if body["kind"] in RUN_PODS:
            pod = {"apiVersion": "v1", "kind": "Pod", **body["spec"]["template"]}
            pod["metadata"] = {**pod["metadata"], "name": "as-the-controller-makes-it"}
            pod["spec"] = {**pod["spec"], "serviceAccountName": "default"}
            namespace.admin.create(pod, "pods", namespace.name, **dry)
