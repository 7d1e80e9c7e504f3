"""What changes the organisation: each checks, changes, audits, announces and rings, in one transaction."""

from teams.actions.archive import archive_team, unarchive_team
from teams.actions.create import create_organisation, create_team
from teams.actions.delete import delete_pool, delete_team
from teams.actions.edits import ShareEdit, TeamEdit, edit_team, review_many, set_many, set_share
from teams.actions.groups import add_to_group, create_group, delete_group, remove_from_group
from teams.actions.members import add_member, change_role, remove_member
from teams.actions.move import move_team
from teams.actions.pools import PoolChanges, create_pool, edit_pool, review_pool
from teams.actions.rules import set_rules

__all__ = [
    "PoolChanges",
    "ShareEdit",
    "TeamEdit",
    "add_member",
    "add_to_group",
    "archive_team",
    "change_role",
    "create_group",
    "create_organisation",
    "create_pool",
    "create_team",
    "delete_group",
    "delete_pool",
    "delete_team",
    "edit_pool",
    "edit_team",
    "move_team",
    "remove_from_group",
    "remove_member",
    "review_many",
    "review_pool",
    "set_many",
    "set_rules",
    "set_share",
    "unarchive_team",
]
