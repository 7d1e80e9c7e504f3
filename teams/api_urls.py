"""The API of teams."""

from django.urls import path

from teams.api.audit import AuditChainState, AuditExport, AuditTrail
from teams.api.classes import ClassDetail, Classes, TeamClass, TeamClasses, TierDetail, Tiers
from teams.api.declaration import Declared
from teams.api.groups import GroupDetail, GroupPeople, GroupPerson, Groups
from teams.api.members import MemberDetail, Members
from teams.api.pools import PoolDetail, Pools
from teams.api.rules import Rules
from teams.api.shares import ShareDetail, TeamShares
from teams.api.sign_in import SignIn, SignInGroup, SignInGroups
from teams.api.teams import ArchiveTeam, MoveTeam, TeamDetail, TeamEdits, Teams, UnarchiveTeam

urlpatterns = [
    path("teams/", Teams.as_view(), name="api-teams"),
    path("teams/<slug:slug>/", TeamDetail.as_view(), name="api-team"),
    path("teams/<slug:slug>/move/", MoveTeam.as_view(), name="api-team-move"),
    path("teams/<slug:slug>/archive/", ArchiveTeam.as_view(), name="api-team-archive"),
    path("teams/<slug:slug>/unarchive/", UnarchiveTeam.as_view(), name="api-team-unarchive"),
    path("teams/<slug:slug>/members/", Members.as_view(), name="api-members"),
    path("teams/<slug:slug>/members/<uuid:binding_id>/", MemberDetail.as_view(), name="api-member"),
    path("teams/<slug:slug>/rules/", Rules.as_view(), name="api-rules"),
    path("teams/<slug:slug>/classes/", TeamClasses.as_view(), name="api-team-classes"),
    path("teams/<slug:slug>/classes/<slug:class_slug>/", TeamClass.as_view(), name="api-team-class"),
    path("teams/<slug:slug>/shares/", TeamShares.as_view(), name="api-shares"),
    path("teams/<slug:slug>/shares/<slug:pool_slug>/", ShareDetail.as_view(), name="api-share"),
    path("team-edits/", TeamEdits.as_view(), name="api-team-edits"),
    path("declared/", Declared.as_view(), name="api-declared"),
    path("classes/", Classes.as_view(), name="api-classes"),
    path("classes/<slug:slug>/", ClassDetail.as_view(), name="api-class"),
    path("tiers/", Tiers.as_view(), name="api-tiers"),
    path("tiers/<slug:slug>/", TierDetail.as_view(), name="api-tier"),
    path("pools/", Pools.as_view(), name="api-pools"),
    path("pools/<slug:slug>/", PoolDetail.as_view(), name="api-pool"),
    path("groups/", Groups.as_view(), name="api-groups"),
    path("groups/<int:group_id>/", GroupDetail.as_view(), name="api-group"),
    path("groups/<int:group_id>/people/", GroupPeople.as_view(), name="api-group-people"),
    path("groups/<int:group_id>/people/<str:username>/", GroupPerson.as_view(), name="api-group-person"),
    path("sign-in/", SignIn.as_view(), name="api-sign-in"),
    path("sign-in/groups/", SignInGroups.as_view(), name="api-sign-in-groups"),
    path("sign-in/groups/<uuid:binding_id>/", SignInGroup.as_view(), name="api-sign-in-group"),
    path("audit/", AuditTrail.as_view(), name="api-audit"),
    path("audit/chain/", AuditChainState.as_view(), name="api-audit-chain"),
    path("audit/export/", AuditExport.as_view(), name="api-audit-export"),
]
