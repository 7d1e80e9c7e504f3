"""`/api/v1/`: the parts of each app, and the project's own."""

import threading
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import include, path
from drf_spectacular.views import SpectacularAPIView

from chamber import api_accounts, api_version
from chamber.factors import api as factors
from chamber.oidc import api as oidc
from chamber.people import api as people
from chamber.people.export_views import PersonExportDoor


class Schema(SpectacularAPIView):
    """The OpenAPI document, made for one caller at a time: the library fails where several threads begin at once."""

    _making = threading.Lock()

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Answer one caller after the other."""
        with self._making:
            return super().dispatch(request, *args, **kwargs)


urlpatterns = [
    path("", include("teams.api_urls")),
    path("", include("workloads.api_urls")),
    path("", include("agentlink.api_urls")),
    path("", include("scheduling.api_urls")),
    path("me/", api_accounts.Me.as_view(), name="api-me"),
    path("tokens/", api_accounts.Tokens.as_view(), name="api-tokens"),
    path("tokens/<uuid:token_id>/", api_accounts.TokenDetail.as_view(), name="api-token"),
    path("people/", people.People.as_view(), name="api-people"),
    path("people/<str:username>/", people.PersonDetail.as_view(), name="api-person"),
    path("people/<str:username>/link/", people.PersonLink.as_view(), name="api-person-link"),
    path("people/<str:username>/disable/", people.PersonDisable.as_view(), name="api-person-disable"),
    path("people/<str:username>/enable/", people.PersonEnable.as_view(), name="api-person-enable"),
    path("people/<str:username>/factors/", factors.PersonFactors.as_view(), name="api-person-factors"),
    path("people/<str:username>/providers/", oidc.PersonProviders.as_view(), name="api-person-providers"),
    path(
        "people/<str:username>/providers/<slug:provider_id>/",
        oidc.PersonProvider.as_view(),
        name="api-person-provider",
    ),
    path("people/<str:username>/export/", PersonExportDoor.as_view(), name="api-person-export"),
    path("people/<str:username>/sessions/", people.PersonSessions.as_view(), name="api-person-sessions"),
    path(
        "people/<str:username>/sessions/<int:session_id>/",
        people.PersonSession.as_view(),
        name="api-person-session",
    ),
    path("login/", api_accounts.Login.as_view(), name="api-login"),
    path("version/", api_version.Version.as_view(), name="api-version"),
    path("schema/", Schema.as_view(), name="api-schema"),
]
