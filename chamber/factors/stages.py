"""The step of signing in that asks for a second factor."""

from allauth.mfa.stages import AuthenticateStage
from django.http import HttpRequest

from chamber.oidc.reading import strong
from chamber.oidc.sessions import provider_id


class SecondFactor(AuthenticateStage):
    """Asks who has a second factor for it, but for who comes by a provider that asks for one itself."""

    def _should_handle(self, request: HttpRequest) -> bool:
        return provider_id(request) not in strong() and bool(super()._should_handle(request))
