"""Every URL: each app's pages, its part of the API, and the project's own."""

from django.urls import include, path

from chamber import health, views, views_sign_in, views_tokens
from chamber.metrics.view import metrics
from teams.views import audit, groups

chamber_patterns = (
    [
        path("", views.overview, name="overview"),
        path("mine/", views.mine, name="mine"),
        path("settings/audit/", audit.audit, name="audit"),
        path("settings/audit/export/", audit.export, name="audit-export"),
        path("settings/groups/", groups.groups, name="groups"),
        path("settings/groups/<int:group_id>/", groups.group, name="group"),
        path("settings/groups/<int:group_id>/delete/", groups.delete, name="group-delete"),
        path(
            "settings/groups/<int:group_id>/people/<str:username>/remove/", groups.remove, name="group-remove"
        ),
        path("tokens/", views_tokens.tokens, name="tokens"),
        path("tokens/<uuid:token_id>/revoke/", views_tokens.revoke_token, name="revoke-token"),
        path("clusters/<slug:name>/simulated-agent/", views.demo_agent, name="demo-agent"),
    ],
    "chamber",
)

urlpatterns = [
    path("", include(chamber_patterns)),
    path("sign-in/", views_sign_in.SignIn.as_view(), name="login"),
    path("sign-out/", views_sign_in.SignOut.as_view(), name="logout"),
    path("teams/", include("teams.urls")),
    path("workloads/", include("workloads.urls")),
    path("", include("agentlink.urls")),
    path("", include("scheduling.urls")),
    path("api/v1/", include("chamber.api")),
    path("livez", health.livez, name="livez"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
]

handler400 = "chamber.views_errors.bad_request"
handler500 = "chamber.views_errors.server_error"
handler404 = "chamber.views_errors.not_found"
