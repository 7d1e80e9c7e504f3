"""The API of clusters and nodes."""

from django.urls import path

from agentlink import api, api_data, api_spaces
from agentlink.api_use import UseView, WorkloadUsage
from agentlink.logs.api import Logs

urlpatterns = [
    path("clusters/", api.ClusterList.as_view(), name="api-clusters"),
    path("clusters/<slug:name>/", api.ClusterDetail.as_view(), name="api-cluster"),
    path("clusters/<slug:name>/lost/", api.ClusterLost.as_view(), name="api-cluster-lost"),
    path("clusters/<slug:name>/namespaces/", api_spaces.NamespaceList.as_view(), name="api-namespaces"),
    path(
        "clusters/<slug:name>/namespaces/<slug:namespace>/",
        api_spaces.NamespaceDetail.as_view(),
        name="api-namespace",
    ),
    path("clusters/<slug:name>/pools/<slug:slug>/", api.ClusterPool.as_view(), name="api-cluster-pool"),
    path("clusters/<slug:name>/tokens/", api.TokenList.as_view(), name="api-cluster-tokens"),
    path(
        "clusters/<slug:name>/tokens/<uuid:token_id>/",
        api.AgentTokenDetail.as_view(),
        name="api-cluster-token",
    ),
    path(
        "teams/<slug:slug>/data-sources/<str:name>/locations/",
        api_data.DataLocations.as_view(),
        name="api-data-locations",
    ),
    path(
        "teams/<slug:slug>/data-sources/<str:name>/locations/<uuid:location_id>/",
        api_data.DataLocationDetail.as_view(),
        name="api-data-location",
    ),
    path("workloads/<slug:slug>/logs/", Logs.as_view(), name="api-workload-logs"),
    path("workloads/<slug:slug>/usage/", WorkloadUsage.as_view(), name="api-workload-usage"),
    path("usage/", UseView.as_view(), name="api-usage"),
    path("nodes/", api.NodeList.as_view(), name="api-nodes"),
]
