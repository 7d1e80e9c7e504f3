"""The code flow with PKCE, state and nonce: allauth's, with each token judged by its signature, issuer and nonce."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from allauth.socialaccount.models import SocialAccount, SocialApp, SocialLogin, SocialToken
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.crypto import get_random_string

from chamber.mailing import public
from chamber.models import User
from chamber.oidc import asking
from chamber.oidc.asking import Discovery, ProviderFailed, authenticates_by, discovery_of
from chamber.oidc.claims import Claims, WrongToken, judged, merged
from chamber.oidc.providers import Provider, provider_of

NONCE_CHARACTERS = 32
PKCE = {"oauth_pkce_enabled": True}


@dataclass(frozen=True, slots=True)
class ProviderAnswer:
    """What a provider gave at the end of the flow."""

    provider: Provider
    claims: Claims
    id_token: str
    refresh_token: str = ""


class ProviderLogin(SocialLogin):
    """A sign-in whose account `chamber.oidc.admission` finds, and not allauth."""

    answer: ProviderAnswer

    def lookup(self) -> None:
        """Look for nobody."""
        self._did_authenticate_by_email = None


class Flow(OpenIDConnectOAuth2Adapter):
    """One sign-in: what the provider is asked, and what becomes of its answer. `state` is what was kept meanwhile."""

    state: Mapping[str, Any] = {}

    @property
    def configured(self) -> Provider:
        """The provider, as it is configured."""
        return provider_of(self.provider_id)

    @property
    def discovery(self) -> Discovery:
        """What the provider says of itself; an error of the flow where it does not."""
        try:
            return discovery_of(self.configured)
        except ProviderFailed as error:
            raise OAuth2Error(str(error)) from error

    @property
    def openid_config(self) -> dict[str, Any]:
        """The same as allauth reads it."""
        return self.discovery.model_dump()

    @property
    def basic_auth(self) -> bool:
        """Whether the client's secret goes into a header."""
        return authenticates_by(self.configured, self.discovery) == "client_secret_basic"

    def get_callback_url(self, request: HttpRequest, app: SocialApp) -> str:  # noqa: ARG002 - allauth's signature
        """Return where the provider sends people back to."""
        return callback_url(request, self.provider_id)

    def parse_token(self, data: Mapping[str, Any]) -> SocialToken:
        """Return the access token, which is used at once: how long it is good is no matter."""
        return SocialToken(token=str(data["access_token"]))

    def complete_login(
        self,
        request: HttpRequest,
        app: SocialApp,  # noqa: ARG002 - allauth's signature
        token: SocialToken,
        **kwargs: Any,
    ) -> ProviderLogin:
        """Judge what the provider answered, and return whose sign-in it is; raise `OAuth2Error` for what is wrong."""
        provider, response = self.configured, kwargs["response"]
        try:
            signed = judged(
                provider, str(response.get("id_token", "")), nonce=str(self.state.get("nonce", ""))
            )
            claims = Claims.of(provider, merged(signed, self._userinfo(token.token)))
        except (WrongToken, ProviderFailed) as error:
            raise OAuth2Error(str(error)) from error
        login: ProviderLogin = self.get_provider().sociallogin_from_response(request, {"claims": claims})
        login.answer = ProviderAnswer(
            provider, claims, response["id_token"], str(response.get("refresh_token") or "")
        )
        return login

    def _userinfo(self, access_token: str) -> dict[str, Any]:
        endpoint = self.discovery.userinfo_endpoint
        return userinfo(endpoint, access_token) if endpoint else {}


def userinfo(endpoint: str, access_token: str) -> dict[str, Any]:
    """Return what the provider tells of whose access token this is; raise `ProviderFailed`."""
    return asking.get_json(endpoint, {"Authorization": f"Bearer {access_token}"})


class FlowProvider(OpenIDConnectProvider):
    """What allauth asks of a provider."""

    oauth2_adapter_class = Flow

    def redirect(
        self,
        request: HttpRequest,
        process: str,
        next_url: str | None = None,
        data: Any = None,
        **kwargs: Any,
    ) -> HttpResponse:
        """Begin the flow, with a nonce that its ID token has to have."""
        nonce = get_random_string(NONCE_CHARACTERS)
        kwargs["auth_params"] = {**(kwargs.get("auth_params") or {}), "nonce": nonce}
        response: HttpResponse = super().redirect(
            request, process, next_url=next_url, data=data, nonce=nonce, **kwargs
        )
        return response

    def get_scope(self) -> list[str]:
        """Return what is asked for."""
        return list(provider_of(self.app.provider_id).scopes)

    def sociallogin_from_response(self, request: HttpRequest, response: dict[str, Claims]) -> ProviderLogin:  # noqa: ARG002
        """Return whose sign-in it is, as far as the provider knows."""
        claims = response["claims"]
        kept = kept_of(provider_of(self.app.provider_id), claims)
        account = SocialAccount(provider=self.sub_id, uid=claims.key, extra_data=kept)
        return ProviderLogin(provider=self, account=account, user=User())

    def serialize(self) -> dict[str, Any]:
        """Return by what the provider is found again: two may know this server by the same client id."""
        return {"id": self.sub_id, "app.client_id": self.app.client_id}


class Callback(OAuth2CallbackView):
    """The end of the flow, which knows what was kept at its beginning."""

    def _get_state(self, request: HttpRequest, provider: FlowProvider) -> Any:
        state, response = super()._get_state(request, provider)
        self.adapter.state = state or {}
        return state, response


def kept_of(provider: Provider, claims: Claims) -> dict[str, Any]:
    """Return what is kept with a person's account at a provider."""
    return {"issuer": provider.issuer, "email": claims.email, "groups": sorted(claims.groups)}


def callback_url(request: HttpRequest, provider_id: str) -> str:
    """Return where a provider sends people back to, as the operator registers it there."""
    path = reverse("openid_connect_callback", kwargs={"provider_id": provider_id})
    return public(request.build_absolute_uri(path))


def app_of(provider: Provider) -> SocialApp:
    """Return a provider as allauth knows it."""
    return SocialApp(
        provider=OpenIDConnectProvider.id,
        provider_id=provider.id,
        name=provider.name,
        client_id=provider.client_id,
        secret=provider.secret,
        settings={"server_url": provider.issuer, **PKCE},
    )
