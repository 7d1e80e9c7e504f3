"""Pages of pools and clusters, and the long-poll twin of the agents' socket."""

from django.urls import path

from agentlink import views, views_data, views_spaces, views_sync, views_use
from agentlink.logs.views import logs

app_name = "agentlink"
urlpatterns = [
    path("agent/v1/sync", views_sync.sync, name="sync"),
    path("workloads/<slug:slug>/logs/", logs, name="workload-logs"),
    path("pools/", views.pools, name="pools"),
    path("pools/<slug:slug>/", views.pool, name="pool"),
    path("clusters/connect/", views.connect, name="connect"),
    path("clusters/<slug:name>/", views.cluster, name="cluster"),
    path("clusters/<slug:name>/pools/<slug:slug>/", views.bind_pool, name="bind-pool"),
    path("clusters/<slug:name>/tokens/", views.add_token, name="add-token"),
    path("clusters/<slug:name>/tokens/<uuid:token_id>/revoke/", views.revoke_token, name="revoke-token"),
    path("clusters/<slug:name>/namespaces/", views_spaces.bind, name="bind-namespace"),
    path(
        "clusters/<slug:name>/namespaces/<slug:namespace>/remove/",
        views_spaces.unbind,
        name="unbind-namespace",
    ),
    path("clusters/<slug:name>/delete/", views.delete, name="delete-cluster"),
    path("clusters/<slug:name>/lost/", views.declare_lost, name="declare-lost"),
    path("data/<slug:team>/<str:name>/locate/", views_data.locate, name="data-locate"),
    path(
        "data/<slug:team>/<str:name>/locations/<uuid:location_id>/remove/",
        views_data.forget,
        name="data-forget",
    ),
    path("workloads/<slug:slug>/use/", views_use.workload_use, name="workload-use"),
]
