"""The API of scheduling."""

from django.urls import path

from scheduling import api, api_preview, api_what_if

urlpatterns = [
    path("queue/next/", api_what_if.QueueNext.as_view(), name="api-queue-next"),
    path("queue/", api.PoolQueue.as_view(), name="api-queue"),
    path("workloads/<slug:slug>/explain/", api.Explain.as_view(), name="api-workload-explain"),
    path("preview/", api_preview.SubmissionPreview.as_view(), name="api-preview"),
    path("plans/", api.Plans.as_view(), name="api-plans"),
    path("pools-figures/", api.PoolsFigures.as_view(), name="api-pools-figures"),
    path("teams-figures/", api.TeamsFigures.as_view(), name="api-teams-figures"),
    path("what-if/", api_what_if.WhatIf.as_view(), name="api-what-if"),
]
