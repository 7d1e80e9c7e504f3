"""A namespace and nodes of its own for each test, so that many tests share one cluster, and a small client for them.

What belongs to a test carries the label `chamber.test/NAMESPACE: "true"`; an agent under test is given that selector.
"""

import json
import secrets
import ssl
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import httpx

T = TypeVar("T")
Json = dict[str, Any]
SECONDS = 90.0
LONGEST_SECONDS = 300.0
"""How long one answer may take: thousands of objects may be deleted by it."""
FINALIZED = ("batch/v1", "jobs"), ("v1", "pods"), ("resource.k8s.io/v1", "resourceclaims")
"""What of a namespace may carry a finalizer of the agent, which is gone when the test is over."""
CLUSTER_WIDE = (
    ("v1", "nodes"),
    ("resource.k8s.io/v1", "resourceslices"),
    ("resource.k8s.io/v1", "deviceclasses"),
    ("rbac.authorization.k8s.io/v1", "clusterroles"),
    ("rbac.authorization.k8s.io/v1", "clusterrolebindings"),
    ("admissionregistration.k8s.io/v1", "validatingadmissionpolicies"),
    ("admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings"),
    ("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations"),
)
"""What a test may make beside its namespace, with its label."""


class Refused(Exception):  # noqa: N818 - an answer of the API server
    """The API server said no: `status`, and its own sentence."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class NeverHappened(AssertionError):  # noqa: N818 - what a test failed with
    """What was waited for did not come; the message shows what there was instead."""


class Admin:
    """Whoever a kubeconfig is of, mostly a cluster's admin, with raw objects.

    It blocks: within an event loop, call it by `asyncio.to_thread`.
    Collections are named as `v1 pods` is in a manifest: `("v1", "pods")`.
    """

    def __init__(self, kubeconfig: Path) -> None:
        read = json.loads(kubeconfig.read_text())
        cluster = read["clusters"][0]["cluster"]
        authority = b64decode(cluster["certificate-authority-data"]).decode()
        self.kubeconfig = kubeconfig
        self._client = httpx.Client(
            base_url=cluster["server"],
            verify=ssl.create_default_context(cadata=authority),
            headers={"Authorization": f"Bearer {read['users'][0]['user']['token']}"},
            timeout=LONGEST_SECONDS,
            trust_env=False,
        )

    def __enter__(self) -> "Admin":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        kind: str = "application/json",
        accept: str = "application/json",
        **params: str,
    ) -> Json:
        """Return the answer to one request; raise `Refused`."""
        content = None if body is None else json.dumps(body)
        headers = {"Content-Type": kind, "Accept": accept}
        answer = self._client.request(method, path, content=content, params=params, headers=headers)
        if not answer.is_success:
            with suppress(ValueError, KeyError):
                raise Refused(answer.status_code, answer.json()["message"])
            raise Refused(answer.status_code, answer.text)
        read: Json = answer.json()
        return read

    def get(self, version: str, plural: str, name: str, namespace: str = "") -> Json:
        """Return one object; raise `Refused` with 404 where there is none."""
        return self.request("GET", _path(version, plural, namespace, name))

    def items(
        self, version: str, plural: str, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> list[Json]:
        """Return all objects of a collection."""
        params = {"labelSelector": labels, "fieldSelector": fields}
        items: list[Json] = self.request("GET", _path(version, plural, namespace), **params)["items"]
        return items

    def create(self, body: Json, plural: str, namespace: str = "", **params: str) -> Json:
        """Create an object and return it; its `apiVersion` says where."""
        return self.request("POST", _path(body["apiVersion"], plural, namespace), body, **params)

    def merge(
        self, version: str, plural: str, name: str, body: Json, namespace: str = "", *, part: str = ""
    ) -> Json:
        """Patch an object, or a part of it such as `status`, by a merge patch, and return it."""
        path = _path(version, plural, namespace, name, part)
        return self.request("PATCH", path, body, kind="application/merge-patch+json")

    def delete(self, version: str, plural: str, name: str, namespace: str = "", **params: str) -> None:
        """Delete one object; nothing where it is gone already."""
        with suppress_missing():
            self.request("DELETE", _path(version, plural, namespace, name), **params)

    def delete_all(
        self, version: str, plural: str, namespace: str = "", *, labels: str = "", **params: str
    ) -> None:
        """Delete a whole collection, or what of it has these labels."""
        self.request("DELETE", _path(version, plural, namespace), labelSelector=labels, **params)

    def until(
        self,
        holds: Callable[[list[Json]], T],
        version: str,
        plural: str,
        namespace: str = "",
        *,
        labels: str = "",
        seconds: float = SECONDS,
    ) -> T:
        """Return what `holds` says of the collection as soon as that is true; raise `NeverHappened`.

        It is asked after the list and after each event of a watch.
        """
        path, params = _path(version, plural, namespace), {"labelSelector": labels}
        listed = self.request("GET", path, **params)
        found = {item["metadata"]["uid"]: item for item in listed["items"]}
        if said := holds(list(found.values())):
            return said
        since = {"resourceVersion": listed["metadata"]["resourceVersion"]}
        watch = params | since | {"watch": "1", "timeoutSeconds": str(max(1, int(seconds)))}
        with self._client.stream("GET", path, params=watch, timeout=seconds + 5) as answer:
            for line in answer.iter_lines():
                event = json.loads(line)
                uid = event["object"]["metadata"]["uid"]
                found.pop(uid, None)
                if event["type"] != "DELETED":
                    found[uid] = event["object"]
                if said := holds(list(found.values())):
                    return said
        seen = "".join(
            f"\n{item['metadata']['name']}: {json.dumps(item.get('status'))}" for item in found.values()
        )
        raise NeverHappened(f"{plural} in {namespace or 'the cluster'} after {seconds} s: {seen or 'none'}")


@contextmanager
def suppress_missing() -> Iterator[None]:
    """Let a 404 pass: what should go is gone."""
    try:
        yield
    except Refused as refused:
        if refused.status != 404:
            raise


def _path(version: str, plural: str, namespace: str = "", name: str = "", part: str = "") -> str:
    parts = ["api" if "/" not in version else "apis", version]
    if namespace:
        parts += ["namespaces", namespace]
    return "/" + "/".join([*parts, plural, *filter(None, (name, part))])


class Namespace:
    """A test's namespace, its nodes, and the admin's client."""

    def __init__(self, admin: Admin, name: str) -> None:
        self.admin, self.name = admin, name
        self.label = f"chamber.test/{name}"

    @property
    def selector(self) -> str:
        """Selects what belongs to the test, its nodes before all."""
        return f"{self.label}=true"

    @property
    def kubeconfig(self) -> Path:
        """How the cluster is reached as admin."""
        return self.admin.kubeconfig

    def add_nodes(self, count: int, **facts: Any) -> list[str]:
        """Add ready nodes of `node_body(**facts)` to the cluster and return their names: NAMESPACE-0, NAMESPACE-1, …"""
        taken = len(self.admin.items("v1", "nodes", labels=self.selector))
        names = [f"{self.name}-{index}" for index in range(taken, taken + count)]
        for name in names:
            body = node_body(name, **facts)
            body["metadata"]["labels"][self.label] = "true"
            self.admin.create(body, "nodes")
        self.admin.until(lambda nodes: self._ready(nodes, names), "v1", "nodes", labels=self.selector)
        return names

    def items(self, version: str, plural: str, **selectors: str) -> list[Json]:
        """Return all objects of a collection in the namespace."""
        return self.admin.items(version, plural, self.name, **selectors)

    def until(
        self, holds: Callable[[list[Json]], T], version: str, plural: str, *, seconds: float = SECONDS
    ) -> T:
        """Wait for something of a collection in the namespace: see `Admin.until`."""
        return self.admin.until(holds, version, plural, self.name, seconds=seconds)

    def account_kubeconfig(self, account: str, folder: Path) -> Path:
        """Write a kubeconfig with a token of one of the namespace's service accounts, and return its path."""
        path = _path("v1", "serviceaccounts", self.name, account, "token")
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        read = json.loads(self.kubeconfig.read_text())
        token = self.admin.request("POST", path, asked)["status"]["token"]
        read["users"][0]["user"] = {"token": token}
        read["contexts"][0]["context"]["namespace"] = self.name
        written = folder / f"{account}.kubeconfig"
        written.write_text(json.dumps(read))
        return written

    def play(self, pod: str, **how: str) -> None:
        """Have the pod end, wait or stop as `rig/kube/stages.yaml` says: `play(name, run_for="0s", ends="1")`."""
        notes = {f"chamber.test/{key.replace('_', '-')}": value for key, value in how.items()}
        self.admin.merge("v1", "pods", pod, {"metadata": {"annotations": notes}}, self.name)

    def remove(self) -> None:
        """Take everything of the test out of the cluster; the namespace itself goes in the background."""
        for version, plural in FINALIZED:
            for item in self.items(version, plural):
                if item["metadata"].get("finalizers"):
                    with suppress_missing():
                        name, free = item["metadata"]["name"], {"metadata": {"finalizers": None}}
                        self.admin.merge(version, plural, name, free, self.name)
            grace = {"gracePeriodSeconds": "0"} if plural == "pods" else {"propagationPolicy": "Background"}
            self.admin.delete_all(version, plural, self.name, **grace)
        self.admin.delete("v1", "namespaces", self.name)
        for version, plural in CLUSTER_WIDE:
            self.admin.delete_all(version, plural, labels=self.selector)

    def _ready(self, nodes: Sequence[Json], names: Sequence[str]) -> bool:
        """Return whether those nodes are ready and the taint of a new node is off them."""
        ready = {
            node["metadata"]["name"]
            for node in nodes
            if any(
                said["type"] == "Ready" and said["status"] == "True"
                for said in node["status"].get("conditions", [])
            )
            and not any(
                taint["key"].startswith("node.kubernetes.io/") for taint in node["spec"].get("taints", [])
            )
        }
        return ready.issuperset(names)


def node_body(
    name: str,
    *,
    gpus: int = 8,
    product: str = "NVIDIA-H100-80GB-HBM3",
    memory_mib: int = 81_559,
    profiles: Mapping[str, int] | None = None,
    cpu: str = "96",
    memory: str = "1024Gi",
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Json] = (),
) -> Json:
    """Return a node as a kubelet with NVIDIA's device plugin and feature discovery registers it.

    `profiles` are MIG devices by name of the profile, such as `{"1g.10gb": 7}`; without GPUs there are no such labels.
    """
    devices = {f"nvidia.com/mig-{profile}": str(count) for profile, count in (profiles or {}).items()}
    if gpus:
        devices["nvidia.com/gpu"] = str(gpus)
    found = {"nvidia.com/gpu.product": product, "nvidia.com/gpu.memory": str(memory_mib)}
    found |= {"nvidia.com/gpu.count": str(gpus), "nvidia.com/gpu.present": "true"}
    resources = {"cpu": cpu, "memory": memory, "pods": "110", "ephemeral-storage": "1Ti"} | devices
    own = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": own | (found if devices else {}) | dict(labels or {})},
        "spec": {"taints": list(taints)} if taints else {},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "nodeInfo": {
                "kubeletVersion": "v1.36.3",
                "architecture": "amd64",
                "operatingSystem": "linux",
                "kernelVersion": "",
                "osImage": "",
                "containerRuntimeVersion": "",
                "kubeProxyVersion": "",
                "machineID": "",
                "systemUUID": "",
                "bootID": "",
            },
        },
    }


@contextmanager
def namespace(kubeconfig: Path) -> Iterator[Namespace]:
    """Make a namespace in which pods can be created, and take it and its nodes away after the block."""
    name = f"t-{secrets.token_hex(4)}"
    with Admin(kubeconfig) as admin:
        body = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {f"chamber.test/{name}": "true"}},
        }
        admin.create(body, "namespaces")
        made = Namespace(admin, name)
        try:
            made.until(bool, "v1", "serviceaccounts")  # without its account `default` no pod is let in
            yield made
        finally:
            made.remove()
