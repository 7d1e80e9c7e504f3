"""A real Kubernetes control plane on loopback: etcd, API server, controllers, scheduler, and kwok as the kubelets.

    python -m rig.kubernetes [FOLDER]   # runs one, prints its KUBECONFIG, stops it when interrupted

`make kube` builds the programs. What kwok plays, and how a pod asks for failures, stands in `rig/kube/stages.yaml`.
"""

import argparse
import fcntl
import json
import os
import secrets
import signal
import ssl
import subprocess
import sys
import tempfile
from abc import abstractmethod
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx

from rig import servers

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok", "helm")
STAGES = Path(__file__).resolve().parent / "kube" / "stages.yaml"
LOOPBACK = "127.0.0.1"
CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "deployment-controller",
    "disruption-controller",
    "endpointslice-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "node-lifecycle-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "resourceclaim-controller",
    "resourcequota-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "taint-eviction-controller",
    "ttl-after-finished-controller",
)
"""Those that Chamber's objects meet; the others would only watch."""
CLIENT_LIMITS = ("--kube-api-qps", "500", "--kube-api-burst", "1000")
"""At the default of 20 requests a second, the Job controller would be what is measured."""


def programs_folder() -> Path:
    """Return where the programs lie or are built: KUBEBUILDER_ASSETS, else the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("KUBEBUILDER_ASSETS") or cache / "chamber" / "kube" / "bin")


def program(name: str) -> str:
    """Return the path of one of `PROGRAMS`; raise `ServerFailed` where it was not built."""
    path = programs_folder() / name
    if not path.exists():
        raise servers.ServerFailed(f"There is no {name} in {path.parent}; `make kube` builds it.")
    return str(path)


def programs() -> Path | None:
    """Return the folder of the programs where all are there, else None."""
    folder = programs_folder()
    return folder if all((folder / name).exists() for name in PROGRAMS) else None


class Component(servers.Server):
    """One process of the control plane, with a folder of its own for its log, its pid and its files."""

    start_seconds = 120.0
    own_session = True
    healthy = "/healthz"
    scheme = "https"

    def __init__(self, plane: "ControlPlane") -> None:
        folder = plane.folder / self.name
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(folder)
        self.plane = plane

    @abstractmethod
    def words(self) -> list[str]:
        """Return the program and its options."""

    def command(self) -> list[str]:
        """Return the same, in a shell that leaves its pid for `ControlPlane` and becomes the program."""
        return ["sh", "-c", 'echo $$ >pid; exec "$@"', "sh", *self.words()]

    def answers(self) -> bool:
        """Return whether its health page says that it is well."""
        return self._says_well(verify=False, headers={})

    def _says_well(self, *, verify: ssl.SSLContext | bool, headers: dict[str, str]) -> bool:
        url = f"{self.scheme}://{LOOPBACK}:{self.port}{self.healthy}"
        with suppress(httpx.HTTPError):
            return httpx.get(url, verify=verify, headers=headers, timeout=5, trust_env=False).is_success
        return False


class Etcd(Component):
    """The store. Nothing is synced to disk: its data outlive a kill, not the machine."""

    name = "etcd"
    scheme = "http"
    healthy = "/health"

    @property
    def url(self) -> str:
        """Where the API server finds it."""
        return f"http://{LOOPBACK}:{self.port}"

    def words(self) -> list[str]:
        """Return the server's command."""
        peers = f"http://{LOOPBACK}:{servers.free_port()}"
        options = {
            "data-dir": str(self.folder / "data"),
            "listen-client-urls": self.url,
            "advertise-client-urls": self.url,
            "listen-peer-urls": peers,
            "initial-advertise-peer-urls": peers,
            "initial-cluster": f"default={peers}",
            "log-level": "warn",
        }
        return [
            program("etcd"),
            "--unsafe-no-fsync",
            *(f"--{name}={value}" for name, value in options.items()),
        ]


class ApiServer(Component):
    """The API server; it makes its own certificate, whose key also signs the tokens of service accounts."""

    name = "kube-apiserver"
    healthy = "/readyz"

    @property
    def certificate(self) -> Path:
        """Its certificate, the only authority that its clients trust."""
        return self.folder / "certs" / "apiserver.crt"

    @property
    def key(self) -> str:
        """The key of the certificate."""
        return str(self.folder / "certs" / "apiserver.key")

    def words(self) -> list[str]:
        """Return the server's command."""
        options = {
            "bind-address": LOOPBACK,
            "secure-port": str(self.port),
            "cert-dir": str(self.folder / "certs"),
            "etcd-servers": self.plane.etcd.url,
            "service-cluster-ip-range": "10.0.0.0/16",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": self.key,
            "service-account-signing-key-file": self.key,
            "token-auth-file": str(self.plane.tokens),
            "authorization-mode": "RBAC,Node",
            "allow-privileged": "true",
            "endpoint-reconciler-type": "none",
            "delete-collection-workers": "8",
        }
        return [program("kube-apiserver"), *(f"--{name}={value}" for name, value in options.items())]

    def answers(self) -> bool:
        """Return whether it is ready, everything it does at its start included."""
        if not self.certificate.exists():
            return False
        with suppress(ssl.SSLError):  # a certificate that is still being written
            trusted = ssl.create_default_context(cafile=str(self.certificate))
            return self._says_well(verify=trusted, headers={"Authorization": f"Bearer {self.plane.token}"})
        return False


class Controllers(Component):
    """The controller manager. Nodes send no heartbeat here and are not missed for it: see `Kubelets`."""

    name = "kube-controller-manager"

    def words(self) -> list[str]:
        """Return the process' command."""
        options = {
            "kubeconfig": str(self.plane.kubeconfig),
            "bind-address": LOOPBACK,
            "secure-port": str(self.port),
            "controllers": ",".join(CONTROLLERS),
            "leader-elect": "false",
            "service-account-private-key-file": self.plane.api.key,
            "root-ca-file": str(self.plane.api.certificate),
            "use-service-account-credentials": "true",
            "node-monitor-grace-period": "24h",
            "node-monitor-period": "1s",  # how soon the taint of a new node goes
        }
        given = (f"--{name}={value}" for name, value in options.items())
        return [program("kube-controller-manager"), *given, *CLIENT_LIMITS]


class Scheduler(Component):
    """Kubernetes' own scheduler."""

    name = "kube-scheduler"

    def words(self) -> list[str]:
        """Return the process' command."""
        options = {
            "kubeconfig": str(self.plane.kubeconfig),
            "bind-address": LOOPBACK,
            "secure-port": str(self.port),
            "leader-elect": "false",
        }
        given = (f"--{name}={value}" for name, value in options.items())
        return [program("kube-scheduler"), *given, *CLIENT_LIMITS]


class Kubelets(Component):
    """kwok as the kubelets of all nodes, without leases: idle nodes write nothing."""

    name = "kwok"
    scheme = "http"

    def words(self) -> list[str]:
        """Return the process' command."""
        options = {
            "kubeconfig": str(self.plane.kubeconfig),
            "config": str(STAGES),
            "manage-all-nodes": "true",
            "node-lease-duration-seconds": "0",
            "cidr": "10.1.0.0/16",
            "server-address": f"{LOOPBACK}:{self.port}",
        }
        return [program("kwok"), *(f"--{name}={value}" for name, value in options.items())]


class ControlPlane:
    """All processes of one cluster. Each may be stopped, killed and started again by itself."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.kubeconfig = folder / "admin.kubeconfig"
        self.tokens = folder / "tokens.csv"
        self.token = secrets.token_hex(16)
        self.etcd = Etcd(self)
        self.api = ApiServer(self)
        self.controllers = Controllers(self)
        self.scheduler = Scheduler(self)
        self.kubelets = Kubelets(self)
        self._guard: subprocess.Popen[bytes] | None = None
        """Ends what runs should this process be killed: then its standard input ends."""

    @property
    def url(self) -> str:
        """The API server's address."""
        return f"https://{LOOPBACK}:{self.api.port}"

    def start(self) -> None:
        """Start everything and wait until it is well; raise `ServerFailed` with the last lines of who is not."""
        self._write(self.tokens, f"{self.token},admin,admin,system:masters\n")
        script = "cat >/dev/null; kill -KILL $(cat */pid)"
        self._guard = subprocess.Popen(
            ["sh", "-c", script],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
            start_new_session=True,
        )
        self.etcd.start()
        self.api.start()
        self._write(self.kubeconfig, json.dumps(self._admin(), indent=1))
        with ThreadPoolExecutor() as pool:
            list(pool.map(Component.start, (self.controllers, self.scheduler, self.kubelets)))

    def stop(self) -> None:
        """End everything at once: nobody needs its data, and an API server that is asked waits for a minute or more."""
        for component in (self.kubelets, self.scheduler, self.controllers, self.api, self.etcd):
            component.stop(signal.SIGKILL)
        if self._guard is not None:
            self._guard.kill()
            self._guard.communicate()

    def _admin(self) -> dict[str, object]:
        authority = b64encode(self.api.certificate.read_bytes()).decode()
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "test", "cluster": {"server": self.url, "certificate-authority-data": authority}}
            ],
            "users": [{"name": "admin", "user": {"token": self.token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
            "current-context": "test",
        }

    def _write(self, path: Path, text: str) -> None:
        path.touch(mode=0o600)
        path.write_text(text)


@contextmanager
def running(folder: Path | None = None) -> Iterator[ControlPlane]:
    """Run a control plane inside the block, with its files in `folder`, or in one that goes with it."""
    with ExitStack() as stack:
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chamber-kube-")))
        plane = ControlPlane(folder)
        stack.callback(plane.stop)
        plane.start()
        yield plane


@contextmanager
def shared(folder: Path) -> Iterator[Path]:
    """Run one control plane for all processes that come with this folder; give its kubeconfig.

    The first one starts it, and stops it when the last one has left its block.
    """
    folder.mkdir(parents=True, exist_ok=True)
    kubeconfig = folder / "admin.kubeconfig"
    with ExitStack() as stack:
        users = stack.enter_context((folder / "users").open("w"))
        with (folder / "starts").open("w") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            if not kubeconfig.exists():
                plane = ControlPlane(folder)
                stack.callback(plane.stop)
                stack.callback(fcntl.flock, users, fcntl.LOCK_EX)  # waits for the others
                plane.start()
            fcntl.flock(users, fcntl.LOCK_SH)
        yield kubeconfig


def main(arguments: list[str]) -> int:
    """Run a control plane until interrupted."""
    parser = argparse.ArgumentParser(
        prog="python -m rig.kubernetes", description="Run a control plane until interrupted."
    )
    parser.add_argument(
        "folder", nargs="?", type=Path, help="where its files lie; else where they go with it"
    )
    folder: Path | None = parser.parse_args(arguments).folder
    with running(folder.resolve() if folder else None) as plane:
        print(f"export KUBECONFIG={plane.kubeconfig}", flush=True)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with suppress(KeyboardInterrupt):
            signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
