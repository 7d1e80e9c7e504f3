"""The API of clusters and nodes."""

from django.urls import path

from agentlink import api

urlpatterns = [
    path("clusters/", api.ClusterList.as_view(), name="api-clusters"),
    path("clusters/<slug:name>/", api.ClusterDetail.as_view(), name="api-cluster"),
    path("clusters/<slug:name>/lost/", api.ClusterLost.as_view(), name="api-cluster-lost"),
    path("clusters/<slug:name>/tokens/", api.TokenList.as_view(), name="api-cluster-tokens"),
    path("clusters/<slug:name>/tokens/<uuid:token_id>/", api.TokenDetail.as_view(), name="api-cluster-token"),
    path("nodes/", api.NodeList.as_view(), name="api-nodes"),
]
