"""Pages of workloads."""

from django.urls import path

from workloads import views
from workloads.arrays import views as arrays
from workloads.arrays.acts import ACTS

app_name = "workloads"
urlpatterns = [
    path("", views.workload_list, name="list"),
    path("submit/", views.submit, name="submit"),
    path("bulk/", views.bulk, name="bulk"),
    path("statuses/", views.statuses, name="statuses"),
    path("arrays/<slug:slug>/", arrays.array_detail, name="array"),
    *(path(f"arrays/<slug:slug>/{act}/", arrays.act, {"act": act}, name=f"array-{act}") for act in ACTS),
    path("<slug:slug>/", views.workload_detail, name="detail"),
    *(
        path(f"<slug:slug>/{act}/", views.act, {"act": act}, name=act)
        for act in ("cancel", "hold", "release", "requeue")
    ),
]
