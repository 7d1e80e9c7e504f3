"""Pages of teams."""

from django.urls import path

from teams.views import draft, members, pools, team, tree

app_name = "teams"
urlpatterns = [
    path("", tree.tree, name="tree"),
    path("figures/", tree.figures, name="figures"),
    path("new/", tree.create, name="create"),
    path("edit/", draft.edit_all, name="edit-all"),
    path("pools/new/", pools.new, name="pool-new"),
    path("pools/<slug:slug>/edit/", pools.edit, name="pool-edit"),
    path("pools/<slug:slug>/delete/", pools.delete, name="pool-delete"),
    path("<slug:slug>/", team.detail, name="detail"),
    path("<slug:slug>/row/", tree.show_row, name="row"),
    path("<slug:slug>/edit/", tree.edit_row, name="edit"),
    path("<slug:slug>/rename/", team.rename, name="rename"),
    path("<slug:slug>/move/", team.move, name="move"),
    path("<slug:slug>/archive/", team.archive, name="archive"),
    path("<slug:slug>/delete/", team.delete, name="delete"),
    path("<slug:slug>/unarchive/", team.unarchive, name="unarchive"),
    path("<slug:slug>/rules/", team.rules, name="rules"),
    path("<slug:slug>/classes/<slug:class_slug>/", team.narrow, name="narrow"),
    path("<slug:slug>/members/", members.add, name="member-add"),
    path("<slug:slug>/members/<uuid:binding_id>/remove/", members.remove, name="member-remove"),
]
