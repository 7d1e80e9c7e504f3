"""The API of workloads."""

from django.urls import path

from workloads import api, api_notes
from workloads.actions import BULK_ACTS
from workloads.arrays import api as arrays
from workloads.arrays.acts import ACTS
from workloads.credentials import api as credentials
from workloads.data import api as data
from workloads.environments import api as environments

urlpatterns = [
    path("workloads/", api.Workloads.as_view(), name="api-workloads"),
    path("workloads/<slug:slug>/", api.OneWorkload.as_view(), name="api-workload"),
    path("workloads/<slug:slug>/attempts/", api.Attempts.as_view(), name="api-workload-attempts"),
    path("workloads/<slug:slug>/events/", api.Events.as_view(), name="api-workload-events"),
    path("attempts/<uuid:attempt_id>/notes/", api_notes.AttemptNotesView.as_view(), name="api-attempt-notes"),
    path("workloads/<slug:slug>/watch/", api.Watch.as_view(), name="api-workload-watch"),
    path("arrays/", arrays.Arrays.as_view(), name="api-arrays"),
    path("arrays/<slug:slug>/", arrays.OneArray.as_view(), name="api-array"),
    *(
        path(f"arrays/<slug:slug>/{act}/", arrays.ArrayAct.as_view(act=act), name=f"api-array-{act}")
        for act in ACTS
    ),
    path("credentials/", credentials.Credentials.as_view(), name="api-credentials"),
    path("credentials/<str:name>/", credentials.CredentialDetail.as_view(), name="api-credential"),
    path(
        "teams/<slug:slug>/credentials/<str:name>/",
        credentials.CredentialDetail.as_view(),
        name="api-team-credential",
    ),
    path("data-sources/", data.DataSources.as_view(), name="api-data-sources"),
    path(
        "teams/<slug:slug>/data-sources/<str:name>/",
        data.DataSourceDetail.as_view(),
        name="api-data-source",
    ),
    path("environments/", environments.Environments.as_view(), name="api-environments"),
    path(
        "teams/<slug:slug>/environments/<str:name>/",
        environments.EnvironmentDetail.as_view(),
        name="api-environment",
    ),
    path(
        "teams/<slug:slug>/environments/<str:name>/versions/",
        environments.EnvironmentVersions.as_view(),
        name="api-environment-versions",
    ),
    *(
        path(f"workloads/<slug:slug>/{act}/", api.Act.as_view(act=act), name=f"api-workload-{act}")
        for act in BULK_ACTS
    ),
]
