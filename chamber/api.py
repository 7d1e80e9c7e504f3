"""`/api/v1/`: the parts of each app, and the project's own."""

import threading
from typing import Any, ClassVar

from django.http import HttpResponse
from django.urls import include, path
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from chamber import api_accounts, api_version
from chamber.factors import api as factors
from chamber.oidc import api as oidc
from chamber.people import api as people
from chamber.people.csv_views import PeopleCsv
from chamber.people.export_views import PersonExportDoor
from chamber.services import api as services


class Schema(SpectacularAPIView):
    """The OpenAPI document: the same for everybody, so that it is made once in a process, and sent as it is."""

    _made: ClassVar[dict[type[BaseRenderer], bytes]] = {}
    _making = threading.Lock()

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:  # noqa: ARG002 - the library's
        """Return the document in the form that was asked for."""
        renderer: Any = request.accepted_renderer
        if (kind := type(renderer)) not in self._made:
            # The library fails where several threads begin at once; whoever comes later waits for nothing.
            with self._making:
                if kind not in self._made:
                    self._made[kind] = renderer.render(self._document(), renderer.media_type, {})
        name = self._get_filename(request, None)  # type: ignore[no-untyped-call]  # the library's
        return HttpResponse(
            self._made[kind],
            content_type=renderer.media_type,
            headers={"Content-Disposition": f'inline; filename="{name}"'},
        )

    def _document(self) -> Any:
        generator = self.generator_class(api_version=self.api_version)
        return generator.get_schema(request=None, public=True)  # type: ignore[no-untyped-call]  # as above


urlpatterns = [
    path("", include("teams.api_urls")),
    path("", include("workloads.api_urls")),
    path("", include("agentlink.api_urls")),
    path("", include("scheduling.api_urls")),
    path("me/", api_accounts.Me.as_view(), name="api-me"),
    path("tokens/", api_accounts.Tokens.as_view(), name="api-tokens"),
    path("tokens/<uuid:token_id>/", api_accounts.TokenDetail.as_view(), name="api-token"),
    path("people/", people.People.as_view(), name="api-people"),
    path("people-from-csv/", PeopleCsv.as_view(), name="api-people-csv"),
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
    path("provider-groups/", oidc.NamedGroups.as_view(), name="api-provider-groups"),
    path("provider-groups/<str:group_id>/", oidc.NamedGroupDetail.as_view(), name="api-provider-group"),
    path("people/<str:username>/export/", PersonExportDoor.as_view(), name="api-person-export"),
    path("people/<str:username>/sessions/", people.PersonSessions.as_view(), name="api-person-sessions"),
    path(
        "people/<str:username>/sessions/<int:session_id>/",
        people.PersonSession.as_view(),
        name="api-person-session",
    ),
    path("service-accounts/", services.Services.as_view(), name="api-service-accounts"),
    path("service-accounts/<str:name>/", services.ServiceDetail.as_view(), name="api-service-account"),
    path(
        "service-accounts/<str:name>/disable/",
        services.ServiceDisable.as_view(),
        name="api-service-account-disable",
    ),
    path(
        "service-accounts/<str:name>/enable/",
        services.ServiceEnable.as_view(),
        name="api-service-account-enable",
    ),
    path(
        "service-accounts/<str:name>/tokens/",
        services.ServiceTokens.as_view(),
        name="api-service-account-tokens",
    ),
    path(
        "service-accounts/<str:name>/tokens/<uuid:token_id>/",
        services.ServiceTokenDetail.as_view(),
        name="api-service-account-token",
    ),
    path(
        "service-accounts/<str:name>/tokens/<uuid:token_id>/rotate/",
        services.ServiceTokenRotate.as_view(),
        name="api-service-account-token-rotate",
    ),
    path("login/", api_accounts.Login.as_view(), name="api-login"),
    path("version/", api_version.Version.as_view(), name="api-version"),
    path("schema/", Schema.as_view(), name="api-schema"),
]
