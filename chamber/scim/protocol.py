"""What an identity provider is answered over SCIM 2.0 (RFC 7643 and 7644)."""

import json
import logging
import math
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare
from rest_framework.exceptions import Throttled
from scim2_models import (
    AuthenticationScheme,
    Bulk,
    ChangePassword,
    EnterpriseUser,
    Error,
    ETag,
    Filter,
    Group,
    Patch,
    PayloadTooLargeException,
    ResourceType,
    SCIMException,
    ScimProvider,
    ServiceProviderConfig,
    Sort,
    UnauthorizedException,
)
from scim2_models import User as Person
from scim2_server.handler import ScimHandler
from scim2_server.requests import ScimRequest
from scim2_server.responses import ScimResponse

from chamber.authentication import bound_tries
from chamber.errors import Refusal
from chamber.oidc.providers import Provider, providers
from chamber.scim.dialect import ScimDialect, spoken
from chamber.scim.directory import PEOPLE, Directory
from chamber.scim.reading import address_of

logger = logging.getLogger(__name__)

MOST_RESULTS = 200
READS = frozenset({"GET", "HEAD"})
SCIM_TYPES = {409: "uniqueness", 422: "invalidValue", 400: "invalidValue"}
"""Of what is refused by a rule of ours, by its status."""


def _service() -> ScimDialect:
    config = ServiceProviderConfig(
        patch=Patch(supported=True),
        bulk=Bulk(supported=False, max_operations=0, max_payload_size=0),
        filter=Filter(supported=True, max_results=MOST_RESULTS),
        change_password=ChangePassword(supported=False),
        sort=Sort(supported=False),
        etag=ETag(supported=False),
        authentication_schemes=[
            AuthenticationScheme(
                type=AuthenticationScheme.Type.oauthbearertoken,
                name="Token of the provider",
                description="scim_token of the provider's setting, as a bearer token",
                primary=True,
            )
        ],
    )
    kinds = [ResourceType.from_resource(PEOPLE), ResourceType.from_resource(Group)]
    return ScimDialect(ScimProvider([Person, EnterpriseUser, Group], kinds, config=config))


SERVICE = _service()


def answer_to(request: HttpRequest, provider_id: str, path: str) -> HttpResponse:
    """Return the answer to an identity provider."""
    try:
        provider = _authenticated(request, provider_id)
        storage = Directory(provider, writes=request.method not in READS)
        answer = ScimHandler(SERVICE, storage).handle(_asked(request, provider, path))
    except SCIMException as error:
        answer = SERVICE.error_response(error)
    except Refusal as refusal:
        answer = SERVICE.error_response(_told_as(refusal))
    return _sent(answer)


def _authenticated(request: HttpRequest, provider_id: str) -> Provider:
    """Return the provider whose token a request has; wrong ones are counted, by address, and answered alike."""
    try:
        bound_tries(request, "scim", counts=False)
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        found = next((each for each in providers() if each.id == provider_id and each.provisions), None)
        secret = found.scim_token if found else ""
        is_right = constant_time_compare(token.strip(), secret or "x")
        if found is None or scheme.lower() != "bearer" or not is_right:
            bound_tries(request, "scim")
            raise UnauthorizedException(detail="The bearer token is not that of this provider's setting.")
    except Throttled as error:
        refusal = Refusal("Too many attempts.")
        refusal.status, refusal.retry_seconds = 429, math.ceil(getattr(error, "wait", None) or 1)
        raise refusal from error
    return found


def _asked(request: HttpRequest, provider: Provider, path: str) -> ScimRequest:
    try:
        body = request.body
    except RequestDataTooBig as error:
        raise PayloadTooLargeException(detail="The body is too large.") from error
    return ScimRequest(
        method="GET" if request.method == "HEAD" else str(request.method),
        base_url=address_of(request, provider),
        path=f"/{path}",
        query={key: value for key, value in request.GET.items() if isinstance(value, str)},
        headers=dict(request.headers),
        body=spoken(body) if request.method == "PATCH" else body,
    )


def _told_as(refusal: Refusal) -> SCIMException:
    """Return a refusal of ours as SCIM says it."""
    status = 400 if refusal.status == 422 else refusal.status
    error = Error(status=status, scim_type=SCIM_TYPES.get(refusal.status), detail=refusal.message)
    return SCIMException.from_error(error)


def _sent(answer: ScimResponse) -> HttpResponse:
    headers: dict[str, Any] = dict(answer.headers)
    content = b"" if answer.body is None else json.dumps(answer.body).encode()
    return HttpResponse(content, status=int(answer.status), headers=headers)
