"""Pages of scheduling."""

from django.urls import path

from scheduling import views

app_name = "scheduling"
urlpatterns = [
    path("queue/", views.queue, name="queue"),
    path("queue/<slug:slug>/", views.queue, name="queue-pool"),
    path("scheduling/preview/", views.preview_submission, name="preview"),
    path("scheduling/explain/<slug:slug>/", views.explain, name="explain"),
    path("scheduling/team-figures/", views.team_figures, name="team-figures"),
]
