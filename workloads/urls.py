"""Pages of workloads."""

from django.urls import path

from workloads import views

app_name = "workloads"
urlpatterns = [
    path("", views.workload_list, name="list"),
    path("submit/", views.submit, name="submit"),
    path("bulk/", views.bulk, name="bulk"),
    path("statuses/", views.statuses, name="statuses"),
    path("<slug:slug>/", views.workload_detail, name="detail"),
    *(
        path(f"<slug:slug>/{act}/", views.act, {"act": act}, name=act)
        for act in ("cancel", "hold", "release", "requeue")
    ),
]
