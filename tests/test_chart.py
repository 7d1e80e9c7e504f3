"""The chart of `deploy/`: what the real helm makes of it, and what a real API server says to that."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.core import ParameterSource

import chamber
from agentlink.agent.rights import MAKES_NAMESPACES, Where, rules
from chamber.cli.commands.operate import agent
from rig import charts, deployment, servers
from rig.charts import HelmFailed, rendered
from rig.namespaces import Json, Namespace
from rig.namespaces import namespace as another_namespace

pytestmark = pytest.mark.kube
AGENT: Json = {"agent": {"enabled": True, "url": "https://chamber.example.org"}}
SERVER: Json = {
    "server": {
        "enabled": True,
        "hosts": ["chamber.example.org"],
        "trustedProxies": ["10.244.0.0/16"],
        "metrics": {
            "tokenKey": "metrics_token",
            "from": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
        },
        "ingress": {"enabled": True, "tlsSecret": "chamber-tls"},
    }
}
SELECTOR = {"app.kubernetes.io/name": "chamber", "app.kubernetes.io/instance": "chamber"}
PLURALS = {"NetworkPolicy": "networkpolicies", "Ingress": "ingresses"}
OPERATORS = {"ServiceMonitor", "PodMonitor", "PrometheusRule"}
"""Kinds of the Prometheus operator, which a cluster may lack."""
RUN_PODS = {"Deployment", "Job"}


def of_kind(objects: list[Json], kind: str) -> dict[str, Json]:
    return {body["metadata"]["name"]: body for body in objects if body["kind"] == kind}


def containers(objects: list[Json]) -> dict[str, Json]:
    """Return the container of each part that runs pods."""
    running = [body for body in objects if body["kind"] in RUN_PODS]
    found = [body["spec"]["template"]["spec"]["containers"] for body in running]
    assert all(len(each) == 1 for each in found)
    return {each[0]["name"]: each[0] for each in found}


def pods(objects: list[Json]) -> dict[str, Json]:
    """Return the template of the pods of each part."""
    running = [body["spec"]["template"] for body in objects if body["kind"] in RUN_PODS]
    return {template["spec"]["containers"][0]["name"]: template for template in running}


def agent_with(**values: Any) -> Json:
    return {"agent": {**AGENT["agent"], **values}}


def server_with(**values: Any) -> Json:
    return {"server": {**SERVER["server"], **values}}


@pytest.mark.parametrize("values", [AGENT, SERVER, AGENT | SERVER], ids=["agent", "server", "both"])
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
    "server.metrics.serviceMonitor needs server.metrics.tokenKey": server_with(
        metrics={"serviceMonitor": {"enabled": True}}
    ),
    "server.web.autoscaling.minReplicas is 4, above its maxReplicas, 3.": server_with(
        web={"autoscaling": {"enabled": True, "minReplicas": 4, "maxReplicas": 3}}
    ),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_values_that_cannot_be_are_refused_with_a_sentence(sentence: str) -> None:
    with pytest.raises(HelmFailed, match=re.escape(sentence)):
        rendered(REFUSED[sentence])


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


OPTIONS: Json = {
    "cluster": "east",
    "transport": "long-poll",
    "workloadNamespace": "jobs",
    "nodeSelector": {"pool": "research"},
    "gpuResources": ["example.org/gpu*"],
    "gpuDrivers": ["gpu.example.org"],
    "deviceClasses": {"gpu.example.org/mig": "slices"},
    "partitionLabel": "example.org/partition",
    "exporters": ["app=exporter"],
    "exporterPort": 9401,
    "logFormat": "line",
    "logLevel": "DEBUG",
}
"""A value of the chart for each option of the agent, other than its default."""
NOT_VALUES = {
    # The chart's own business, or `agent.url`, which goes by the environment.
    "in_cluster", "token_file", "health_port", "url",
    # Of agents outside of clusters, and of simulated ones.
    "kubeconfig", "context", "simulate", "state_file",
    # Of the hook: see below.
    "release", "stop_workloads", "timeout",
}  # fmt: skip


def test_every_option_of_the_agent_is_reached_by_a_value() -> None:
    made = containers(rendered(agent_with(**OPTIONS)))["agent"]
    context = agent.make_context("agent", made["command"][2:])
    source = {name: context.get_parameter_source(name) for name in context.params}
    said = {name for name, where in source.items() if where is ParameterSource.COMMANDLINE}
    options = {option.name for option in agent.params}
    assert options - said == NOT_VALUES - {"in_cluster", "token_file", "health_port"}
    assert context.params["device_classes"] == ("gpu.example.org/mig=slices",)
    assert context.params["gpu_resources"] == ("example.org/gpu*",)
    assert [given["value"] for given in made["env"] if given["name"] == "CHAMBER_URL"] == [
        AGENT["agent"]["url"]
    ]


def test_the_hook_before_an_uninstall_runs_what_the_command_line_takes() -> None:
    values = agent_with(**OPTIONS, uninstall={"stopWorkloads": True, "timeoutSeconds": 90})
    command = containers(rendered(values))["release"]["command"]
    given = agent.make_context("agent", command[2:]).params
    assert (given["release"], given["stop_workloads"], given["timeout"]) == (True, True, 90)
    assert given["namespace"] == "jobs"
    assert "release" not in containers(rendered(agent_with(uninstall={"hook": False})))


SETTINGS: Json = {
    "tls": False,
    "hstsSeconds": 0,
    "origins": ["https://a.example.org", "https://b.example.org"],
    "keepDays": 60,
    "idlePercent": 3,
    "idleMinutes": 9,
    "webWorkers": 4,
    "workerThreads": 3,
    "graceSeconds": 60,
}
NOT_FOR_A_SERVER = {
    "CHAMBER_DATA", "CHAMBER_DEBUG", "CHAMBER_DEMO", "CHAMBER_RING",
    # Probes, Services and the proxy know this port.
    "CHAMBER_LISTEN_PORT",
}  # fmt: skip


def test_every_documented_setting_is_reached_by_a_value() -> None:
    whole = (deployment.ROOT / "docs" / "operations.md").read_text()
    page = whole.split("\n## Settings\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\|(( `CHAMBER_\w+`,?)+) \|", page, re.MULTILINE)
    explained = {name for cell, _ in rows for name in re.findall(r"`(CHAMBER_\w+)`", cell)}
    explained |= set(re.findall(r"`--[\w-]+`/`(CHAMBER_\w+)`", page))
    assert {"CHAMBER_DATABASE", "CHAMBER_IDLE_MINUTES", "CHAMBER_GRACE_SECONDS"} <= explained
    database = {"url": "postgresql://chamber@db/chamber", "passwordKey": "password"}
    made = containers(rendered(server_with(settings=SETTINGS, database=database)))["web"]
    given = {said["name"].removesuffix("_FILE"): said.get("value") for said in made["env"]}
    assert explained - given.keys() == NOT_FOR_A_SERVER
    assert given["CHAMBER_ORIGINS"] == "https://a.example.org,https://b.example.org"
    assert (given["CHAMBER_TLS"], given["CHAMBER_KEEP_DAYS"]) == ("false", "60")
    schema = json.loads((charts.CHART / "values.schema.json").read_text())
    assert schema["properties"]["server"]["properties"]["settings"]["properties"].keys() == SETTINGS.keys()


def test_pods_have_the_longer_grace_that_a_setting_asks_for() -> None:
    web = pods(rendered(server_with(settings={"graceSeconds": 60})))["web"]["spec"]
    assert web["terminationGracePeriodSeconds"] == 70
    assert pods(rendered(SERVER))["web"]["spec"]["terminationGracePeriodSeconds"] == 30


PODS: Json = {
    "nodeSelector": {"pool": "infra"},
    "tolerations": [{"key": "infra", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {}},
    "priorityClassName": "important",
    "annotations": {"example.org/x": "1"},
    "labels": {"example.org/team": "infra"},
    "podSecurityContext": {"supplementalGroups": [5]},
    "securityContext": {"seLinuxOptions": {"level": "s0"}},
    "topologySpreadConstraints": [],
    "deploymentAnnotations": {"example.org/y": "2"},
    "extraEnv": [{"name": "TZ", "value": "UTC"}],
    "extraEnvFrom": [{"configMapRef": {"name": "more"}}],
    "extraVolumes": [{"name": "more", "emptyDir": {}}],
    "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
}


def test_what_is_said_of_pods_reaches_all_parts() -> None:
    schema = json.loads((charts.CHART / "values.schema.json").read_text())
    assert schema["$defs"]["pods"]["properties"].keys() == PODS.keys()
    values = agent_with(pods=PODS) | server_with(pods=PODS)
    values["image"] = {"repository": "chamber", "pullSecrets": ["registry"]}
    made = rendered(values)
    for name, template in pods(made).items():
        spec, [container] = template["spec"], template["spec"]["containers"]
        for key in ("nodeSelector", "tolerations", "affinity", "priorityClassName"):
            assert spec[key] == PODS[key], (name, key)
        assert spec["topologySpreadConstraints"] == []
        assert template["metadata"]["annotations"].items() >= PODS["annotations"].items()
        assert template["metadata"]["labels"].items() >= PODS["labels"].items()
        assert spec["imagePullSecrets"] == [{"name": "registry"}]
        assert spec["securityContext"]["supplementalGroups"] == [5]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert container["securityContext"]["seLinuxOptions"] == {"level": "s0"}
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert PODS["extraEnv"][0] in container["env"]
        assert container["envFrom"] == PODS["extraEnvFrom"]
        assert PODS["extraVolumes"][0] in spec["volumes"]
        assert PODS["extraVolumeMounts"][0] in container["volumeMounts"]
    for name, body in of_kind(made, "Deployment").items():
        assert body["metadata"]["annotations"] == PODS["deploymentAnnotations"], name


def test_a_part_s_own_word_goes_before_that_of_all() -> None:
    own = {"pods": {"nodeSelector": {"pool": "web"}}}
    made = pods(rendered(server_with(pods=PODS, web=own)))
    assert made["web"]["spec"]["nodeSelector"] == {"pool": "web"}
    assert made["live"]["spec"]["nodeSelector"] == {"pool": "infra"}
    assert made["web"]["spec"]["priorityClassName"] == "important"


def test_a_digest_goes_before_the_tag_and_the_server_knows_of_it() -> None:
    digest = f"sha256:{'0123' * 16}"
    values = AGENT | SERVER | {"image": {"repository": "r.test/chamber", "tag": "1", "digest": digest}}
    made = containers(rendered(values))
    images = {container["image"] for name, container in made.items() if name != "proxy"}
    assert images == {f"r.test/chamber@{digest}"}
    assert {"name": "CHAMBER_IMAGE", "value": f"r.test/chamber@{digest}"} in made["web"]["env"]


@pytest.mark.parametrize("kind", ["configMap", "secret"])
def test_authorities_of_one_s_own_are_trusted_by_agent_and_server(kind: str) -> None:
    made = pods(rendered(AGENT | SERVER | {"authorities": {kind: "own", "key": "root.pem"}}))
    for name, template in made.items():
        container = template["spec"]["containers"][0]
        given = {said["name"]: said.get("value") for said in container.get("env", [])}
        mounted = [mount for mount in container["volumeMounts"] if mount["name"] == "authorities"]
        [volume] = [each for each in template["spec"]["volumes"] if each["name"] == "authorities"] or [None]
        if name == "proxy":
            assert (volume, mounted) == (None, [])
            continue
        assert given["SSL_CERT_FILE"] == given["PGSSLROOTCERT"] == f"{mounted[0]['mountPath']}/root.pem"
        assert volume is not None
        assert volume[kind]["items"] == [{"key": "root.pem", "path": "root.pem"}]


def test_a_proxy_to_the_world_is_not_used_within_the_cluster_and_the_agent_may_reach_it() -> None:
    values = AGENT | SERVER | {"httpProxy": {"https": "http://proxy.test:3128", "except": ["10.0.0.0/8"]}}
    made = rendered(values)
    for name, container in containers(made).items():
        given = {said["name"]: said.get("value", "") for said in container.get("env", [])}
        if name != "proxy":
            assert given["HTTPS_PROXY"] == given["https_proxy"] == "http://proxy.test:3128"
            assert "HTTP_PROXY" not in given
            assert {".svc", "localhost", "10.0.0.0/8"} <= set(given["NO_PROXY"].split(","))
    egress = of_kind(made, "NetworkPolicy")["chamber-agent"]["spec"]["egress"]
    assert 3128 in {said["port"] for rule in egress for said in rule["ports"]}


def test_a_part_that_is_scaled_has_no_number_of_replicas() -> None:
    scaled = {"autoscaling": {"enabled": True, "minReplicas": 3, "maxReplicas": 9, "cpuPercent": 60}}
    assert not of_kind(rendered(SERVER), "HorizontalPodAutoscaler")
    made = rendered(server_with(web=scaled, live=scaled))
    deployments, scalers = of_kind(made, "Deployment"), of_kind(made, "HorizontalPodAutoscaler")
    assert scalers.keys() == {"chamber-web", "chamber-live"}
    for name, scaler in scalers.items():
        assert "replicas" not in deployments[name]["spec"]
        assert (scaler["spec"]["minReplicas"], scaler["spec"]["maxReplicas"]) == (3, 9)
        assert scaler["spec"]["scaleTargetRef"]["name"] == name
    assert deployments["chamber-worker"]["spec"]["replicas"] == 2


WATCHED: Json = {
    "tokenKey": "metrics_token",
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True},
    "dashboards": {"enabled": True},
}


def test_nothing_of_the_prometheus_operator_is_made_unless_asked_for() -> None:
    assert not {body["kind"] for body in rendered(AGENT | SERVER)} & OPERATORS


def test_the_server_is_one_target_that_lets_prometheus_in_and_is_called_as_the_alerts_call_it() -> None:
    made = rendered(server_with(metrics=WATCHED), namespace="there")
    monitor = of_kind(made, "ServiceMonitor")["chamber"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    [endpoint] = monitor["spec"]["endpoints"]
    relabelled = {rule["targetLabel"]: rule["replacement"] for rule in endpoint["relabelings"][:-1]}
    assert relabelled == {"__address__": "chamber-web.there.svc:8000", "job": "chamber"}
    assert endpoint["relabelings"][-1]["action"] == "labeldrop"
    assert endpoint["authorization"]["credentials"] == {"name": "chamber-server", "key": "metrics_token"}
    web = {said["name"]: said.get("value", "") for said in containers(made)["web"]["env"]}
    assert "chamber-web.there.svc" in web["CHAMBER_HOSTS"].split(",")
    service = of_kind(made, "Service")["chamber-web"]
    assert [port["name"] for port in service["spec"]["ports"]] == [endpoint["port"]]
    wanted = monitor["spec"]["selector"]["matchLabels"]
    assert service["metadata"]["labels"].items() >= wanted.items()


def test_rules_and_dashboard_are_those_of_the_files() -> None:
    made = rendered(server_with(metrics=WATCHED))
    rules_file = yaml.safe_load((charts.CHART.parent / "alerts.yaml").read_text())
    assert of_kind(made, "PrometheusRule")["chamber"]["spec"] == rules_file
    shown = of_kind(made, "ConfigMap")["chamber-dashboard"]
    assert shown["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert shown["data"]["chamber.json"].strip() == (charts.CHART.parent / "grafana.json").read_text().strip()


def test_the_agent_is_scraped_at_its_pods_where_asked_for() -> None:
    peers = [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]
    made = rendered(agent_with(metrics={"from": peers, "podMonitor": {"enabled": True, "interval": "15s"}}))
    [endpoint] = of_kind(made, "PodMonitor")["chamber-agent"]["spec"]["podMetricsEndpoints"]
    assert (endpoint["port"], endpoint["path"], endpoint["interval"]) == ("health", "/metrics", "15s")
    assert endpoint["port"] in [port["name"] for port in containers(made)["agent"]["ports"]]
    ingress = of_kind(made, "NetworkPolicy")["chamber-agent"]["spec"]["ingress"]
    assert ingress == [{"from": peers, "ports": [{"protocol": "TCP", "port": 8081}]}]
    closed = of_kind(rendered(AGENT), "NetworkPolicy")["chamber-agent"]["spec"]["ingress"]
    assert closed == []


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
    values = {"server": {**SERVER["server"], "database": elsewhere, "metrics": {"tokenKey": ""}}}
    web = of_kind(rendered(values), "Deployment")["chamber-web"]["spec"]["template"]["spec"]
    [secret] = [volume["secret"] for volume in web["volumes"] if "secret" in volume]
    assert {item["key"] for item in secret["items"]} == {"secret_key", "password", "redis_url"}


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
        egress = of_kind(made, "NetworkPolicy")["chamber-agent"]["spec"]["egress"]
        return {said["port"] for rule in egress for said in rule["ports"]}

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
        Where.WORKLOADS: of_kind(made, "ClusterRole")["chamber-agent-workloads"],
    }
    for where, role in given.items():
        assert rights_of(role) == rights_of({"rules": list(rules(where, *values))}), where


def test_the_examples_of_its_page_are_values_that_it_takes() -> None:
    page = (deployment.ROOT / "docs" / "kubernetes.md").read_text()
    examples = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(examples) >= 3
    for text in examples:
        values: Json = yaml.safe_load(text.replace("sha256:…", f"sha256:{'0' * 64}"))
        agents = agent_with(**values["agent"]) if "agent" in values else {}
        servers = server_with(**values["server"]) if "server" in values else {}
        assert rendered(values | agents | servers)


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
