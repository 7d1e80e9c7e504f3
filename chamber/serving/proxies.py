"""Whose word counts about where a request comes from."""

from collections.abc import Callable
from ipaddress import IPv4Network, IPv6Network, ip_address

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase

Network = IPv4Network | IPv6Network
HEADERS = ("HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_PROTO", "HTTP_X_FORWARDED_HOST", "HTTP_FORWARDED")

FORWARDED = "chamber.forwarded"
"""Set in a request's META where a proxy, trusted or not, passed it on; no header of a client has this name."""


class TrustedProxies:
    """Takes client address and scheme from the headers of proxies in `TRUSTED_PROXIES`; from others, forgets them.

    The address is the last of X-Forwarded-For that is no proxy of ours: what stands before it, the client may have made
    up. `Forwarded` and X-Forwarded-Host are believed of nobody.
    """

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Pass the request on with the address and the scheme that hold; awaitable where the next one is."""
        take_word(request.META, settings.TRUSTED_PROXIES)
        return self.get_response(request)


def take_word(meta: dict[str, str], trusted: list[Network]) -> None:
    """Set `REMOTE_ADDR` from the headers of a trusted proxy; remove headers whose word does not count."""
    said = {name: meta.pop(name, "") for name in HEADERS}
    meta[FORWARDED] = "1" if any(said.values()) else ""
    if not _is_among(meta.get("REMOTE_ADDR", ""), trusted):
        return
    if said["HTTP_X_FORWARDED_PROTO"]:
        # Of several, the nearest proxy's.
        meta["HTTP_X_FORWARDED_PROTO"] = said["HTTP_X_FORWARDED_PROTO"].split(",")[-1].strip()
    for address in reversed(
        [part.strip() for part in said["HTTP_X_FORWARDED_FOR"].split(",") if part.strip()]
    ):
        if not _is_address(address):
            return
        meta["REMOTE_ADDR"] = address
        if not _is_among(address, trusted):
            return


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _is_among(text: str, networks: list[Network]) -> bool:
    if not _is_address(text):
        return False
    address = ip_address(text)
    mapped = getattr(address, "ipv4_mapped", None)
    return any((mapped or address) in network for network in networks)
