"""What a node pulled, and why an image cannot be had, pure: a registry that gives no answer is away, whatever the
image; a name that it does not know, or does not give, stays so.
"""

import re

from agentlink.agent.kube.resources import JsonObject

PULLING = frozenset({"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable"})
HOPELESS = frozenset({"InvalidImageName", "ErrImageNeverPull"})
REASONS = PULLING | HOPELESS | {"ImageInspectError"}

_REFUSED = re.compile(
    r"manifest unknown|does not exist|not found|denied|unauthori[sz]ed|forbidden|no basic auth|authentication required"
    r"|invalid reference|x509|\b40[134]\b",
    re.IGNORECASE,
)
_AWAY = re.compile(
    r"i/o timeout|timed? ?out|deadline exceeded|connection (was )?(refused|reset)|no route to host|host is down"
    r"|(network|host) is (unreachable|down)|no such host|server misbehaving|name resolution|handshake timeout"
    r"|unexpected EOF|\bEOF\b|\b50[0234]\b|bad gateway|service unavailable|gateway timeout|internal server error"
    r"|too ?many ?requests|\b429\b|proxyconnect",
    re.IGNORECASE,
)


def is_registry_away(reason: str, message: str) -> bool:
    """Return whether an image is missing because its registry gives no answer, as far as the node tells."""
    if reason not in PULLING:
        return False
    # What the registry itself said counts, whatever else was tried; a host's name that is not found is none of it.
    if _REFUSED.search(re.sub(r"lookup \S+.*?: no such host", "no such host", message)):
        return False
    return reason == "RegistryUnavailable" or bool(_AWAY.search(message))


def pulled(spec: JsonObject, status: JsonObject) -> str:
    """Return what a node says that it pulled for a pod's first container; "" where it says nothing yet."""
    first = next((each.get("name") for each in spec.get("containers", ())), None)
    told: JsonObject = next(
        (each for each in status.get("containerStatuses", ()) if each.get("name") == first), {}
    )
    return str(told.get("imageID") or "").rpartition("://")[2]
