"""Pages of scheduling."""

from django.urls import path

from scheduling import views, views_what_if

app_name = "scheduling"
urlpatterns = [
    path("scheduling/silence/", views.silence, name="silence"),
    path("queue/", views.queue, name="queue"),
    path("queue/<slug:slug>/", views.queue, name="queue-pool"),
    path("queue/<slug:slug>/next/", views.queue_next, name="queue-next"),
    path("scheduling/preview/", views.preview_submission, name="preview"),
    path("scheduling/explain/<slug:slug>/", views.explain, name="explain"),
    path("scheduling/team-figures/", views.team_figures, name="team-figures"),
    path("scheduling/what-if/teams/", views_what_if.what_if_teams, name="what-if-teams"),
    path("scheduling/what-if/teams/<slug:slug>/", views_what_if.what_if_team, name="what-if-team"),
    path("scheduling/what-if/drain/", views_what_if.what_if_drain, name="what-if-drain"),
    path("scheduling/what-if/pools/<slug:slug>/", views_what_if.what_if_pool, name="what-if-pool"),
]
