"""How the API server is reached: its address, its proof of identity, and the client's.

`kubernetes.config` reads kubeconfigs and service accounts, and runs the plugins that kubeconfigs name; requests bear
what it found, read anew each minute and whenever the API server does not know it any more.
"""

import asyncio
import logging
import ssl
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx
import yaml
from kubernetes import config
from kubernetes.client import Configuration

from chamber.logs import Lasting

logger = logging.getLogger(__name__)

NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
FRESH_SECONDS = 60.0
"""How long credentials are used before they are looked after."""
LOAD_AGAIN_SECONDS = 10.0
"""After credentials were refused everything is loaded anew, at most this often: plugins may be slow."""


class BadAccess(Exception):  # noqa: N818 - an answer to the user
    """Why a cluster cannot be reached with what there is, as a sentence."""


class _Loaded(Protocol):
    """What is used of the library's configuration."""

    host: str
    ssl_ca_cert: str | None
    cert_file: str | None
    key_file: str | None
    verify_ssl: bool
    tls_server_name: str | None
    api_key: dict[str, str]
    refresh_api_key_hook: Callable[["_Loaded"], None] | None


class Access(httpx.Auth):
    """An API server's address and the credentials for it, which are renewed while they are in use.

    `namespace` is the one that the kubeconfig's context or the service account names.
    """

    def __init__(
        self, read: Callable[[], _Loaded], *, namespace: str = "default", proxied: bool = True
    ) -> None:
        self._read = read
        self._loaded = read()
        self.server = self._loaded.host
        self.namespace = namespace
        self.tls_server_name = self._loaded.tls_server_name
        self.proxy = _proxy(self.server) if proxied else None
        self.context = _context(self._loaded)
        self._looked_at = self._loaded_at = time.monotonic()
        self._renewing = asyncio.Lock()
        self._stale = Lasting()

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Yield the request with credentials, and once more with new ones where they are refused."""
        if time.monotonic() - self._looked_at > FRESH_SECONDS:
            async with self._renewing:
                await asyncio.to_thread(self._look_after)
        used = self._credentials()
        self._sign(request, used)
        response = yield request
        if response.status_code == httpx.codes.UNAUTHORIZED and await self._renew(used):
            self._sign(request, self._credentials())
            yield request

    def _credentials(self) -> str:
        return self._loaded.api_key.get("BearerToken", "")

    @staticmethod
    def _sign(request: httpx.Request, credentials: str) -> None:
        if credentials:
            request.headers["Authorization"] = credentials

    def _look_after(self) -> None:
        """Read a service account's token again, ask a plugin again whose credentials have expired."""
        if time.monotonic() - self._looked_at <= FRESH_SECONDS:
            return  # another task just did
        self._looked_at = time.monotonic()
        if self._loaded.refresh_api_key_hook is not None:
            try:
                self._loaded.refresh_api_key_hook(self._loaded)
            except (config.ConfigException, OSError) as error:
                self._tell_stale(error)

    async def _renew(self, refused: str) -> bool:
        """Load everything anew; return whether it is worth to ask again."""
        async with self._renewing:
            if self._credentials() != refused:
                return True
            if time.monotonic() - self._loaded_at < LOAD_AGAIN_SECONDS:
                return False
            self._loaded_at = time.monotonic()
            try:
                self._loaded = await asyncio.to_thread(self._read)
                _trust(self.context, self._loaded)
            except (BadAccess, OSError) as error:
                self._tell_stale(error)
                return False
            self._stale.over()
            return True

    def _tell_stale(self, error: Exception) -> None:
        """Log why the credentials are not renewed, once for each cause: each request tries."""
        if self._stale.due(str(error)):
            logger.warning("The credentials for %s could not be renewed: %s", self.server, error)


def load(kubeconfig: Path | None = None, context: str | None = None) -> Access:
    """Return the access that a kubeconfig gives, or (None) the service account of this pod; raise `BadAccess`."""
    if kubeconfig is not None and not kubeconfig.exists():
        raise BadAccess(f"There is no kubeconfig {kubeconfig}.")
    if kubeconfig is None:
        return Access(_read_service_account, namespace=_own_namespace(), proxied=False)
    return Access(
        lambda: _read_kubeconfig(kubeconfig, context), namespace=_context_namespace(kubeconfig, context)
    )


def _read_service_account() -> _Loaded:
    loaded: _Loaded = Configuration()
    try:
        config.load_incluster_config(loaded)
    except (config.ConfigException, OSError) as error:
        raise BadAccess(f"This is no pod with a service account: {error}") from error
    return loaded


def _read_kubeconfig(path: Path, context: str | None) -> _Loaded:
    loaded: _Loaded = Configuration()
    try:
        config.load_kube_config(str(path), context, loaded, persist_config=False)
    except (config.ConfigException, OSError, yaml.YAMLError) as error:
        raise BadAccess(f"{path}: {error}") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:  # what it makes of other files
        raise BadAccess(f"{path} is no kubeconfig: {error}") from error
    if loaded.host.startswith("https") and not loaded.api_key and not loaded.cert_file:
        raise BadAccess(f"{path} gives no credentials for {loaded.host}, or its plugin did not.")
    return loaded


def _own_namespace() -> str:
    try:
        return NAMESPACE_FILE.read_text().strip() or "default"
    except OSError:
        return "default"


def _context_namespace(path: Path, context: str | None) -> str:
    try:
        contexts, active = config.list_kube_config_contexts(str(path))
    except (config.ConfigException, OSError, yaml.YAMLError, AttributeError, KeyError, TypeError) as error:
        raise BadAccess(f"{path} is no kubeconfig: {error}") from error
    chosen = next((each for each in contexts if each["name"] == context), active)
    return str(chosen["context"].get("namespace") or "default")


def _proxy(server: str) -> str | None:
    """Return the proxy that the environment names for the server."""
    parts = urlsplit(server)
    return None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)


def _context(loaded: _Loaded) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=loaded.ssl_ca_cert)
    # Certificates that clusters sign for themselves seldom hold to every rule of the later standards.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not loaded.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if loaded.cert_file:
        context.load_cert_chain(loaded.cert_file, loaded.key_file)
    return context


def _trust(context: ssl.SSLContext, loaded: _Loaded) -> None:
    """Have connections from now on use the certificates that were loaded."""
    if loaded.ssl_ca_cert:
        context.load_verify_locations(cafile=loaded.ssl_ca_cert)
    if loaded.cert_file:
        context.load_cert_chain(loaded.cert_file, loaded.key_file)
