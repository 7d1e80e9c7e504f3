"""Values for the chart, and its objects by what they are: what tests of it share."""

from typing import Any

from rig.namespaces import Json

OPERATORS = {"ServiceMonitor", "PodMonitor", "PrometheusRule"}
"""Kinds of the Prometheus operator, which a cluster may lack."""
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
RUN_PODS = {"Deployment", "Job"}
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
    "disruption": {"budgets": ["reserved"], "annotations": []},
    "logFormat": "line",
    "logLevel": "DEBUG",
}
"""A value of the chart for each option of the agent, other than its default."""
SETTINGS: Json = {
    "tls": False,
    "hstsSeconds": 0,
    "hstsSubdomains": False,
    "sessionIdleHours": 12,
    "sessionLongestHours": 24,
    "reauthenticationMinutes": 15,
    "origins": ["https://a.example.org", "https://b.example.org"],
    "limitPerson": 2400,
    "limitToken": 1200,
    "limitAddress": 60000,
    "limitAnonymous": 150,
    "limitParts": 24000,
    "limitSubmissions": 9000,
    "limitOpenWorkloads": 2000,
    "limitTokens": 20,
    "limitStreams": 30,
    "limitNotes": 60,
    "podUrl": "https://chamber.cluster.example",
    "keepDays": 60,
    "keepWorkloadDays": 61,
    "keepAuditDays": 62,
    "keepLogDays": 14,
    "keepSampleDays": 63,
    "keepCycleDays": 8,
    "databaseDiskGib": 100,
    "idlePercent": 3,
    "idleMinutes": 9,
    "webWorkers": 4,
    "workerThreads": 3,
    "graceSeconds": 60,
}
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
WATCHED: Json = {
    "tokenKey": "metrics_token",
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True},
    "dashboards": {"enabled": True},
}


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
