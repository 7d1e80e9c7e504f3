"""What changes the organisation: each checks, changes, audits, announces and rings, in one transaction."""

from teams.actions.archive import archive_team, unarchive_team
from teams.actions.authority import require_edit
from teams.actions.create import create_organisation, create_team, insert_below
from teams.actions.declared_classes import declare_class, require_class_values
from teams.actions.delete import delete_pool, delete_team
from teams.actions.edits import (
    ShareEdit,
    TeamEdit,
    edit_team,
    refuse_misplaced,
    require_values,
    review_many,
    save_edits,
    set_many,
    set_share,
)
from teams.actions.groups import (
    add_to_group,
    create_group,
    delete_group,
    remove_from_group,
    require_groups,
)
from teams.actions.job_classes import (
    create_class,
    delete_class,
    edit_class,
    open_workloads_of,
    retire_class,
    save_class,
)
from teams.actions.members import add_member, change_role, remove_member
from teams.actions.move import move_many, move_team, require_move
from teams.actions.narrowing import narrow_class
from teams.actions.pools import (
    CLUSTER_NAME,
    PoolChanges,
    bind_cluster,
    change_pool,
    cluster_names,
    create_pool,
    edit_pool,
    insert_pool,
    require_pool_values,
    require_pools,
    review_pool,
)
from teams.actions.provider_groups import set_provider_groups, set_provider_role
from teams.actions.rules import set_rules
from teams.actions.sign_in import require_second_factor, require_sign_in
from teams.actions.tiers import (
    create_tier,
    delete_tier,
    edit_tier,
    require_classes,
    retire_tier,
    save_tier,
)

__all__ = [
    "CLUSTER_NAME",
    "PoolChanges",
    "ShareEdit",
    "TeamEdit",
    "add_member",
    "add_to_group",
    "archive_team",
    "bind_cluster",
    "change_pool",
    "change_role",
    "cluster_names",
    "create_class",
    "create_group",
    "create_organisation",
    "create_pool",
    "create_team",
    "create_tier",
    "declare_class",
    "delete_class",
    "delete_group",
    "delete_pool",
    "delete_team",
    "delete_tier",
    "edit_class",
    "edit_pool",
    "edit_team",
    "edit_tier",
    "insert_below",
    "insert_pool",
    "move_many",
    "move_team",
    "narrow_class",
    "open_workloads_of",
    "refuse_misplaced",
    "remove_from_group",
    "remove_member",
    "require_class_values",
    "require_classes",
    "require_edit",
    "require_groups",
    "require_move",
    "require_pool_values",
    "require_pools",
    "require_second_factor",
    "require_sign_in",
    "require_values",
    "retire_class",
    "retire_tier",
    "review_many",
    "review_pool",
    "save_class",
    "save_edits",
    "save_tier",
    "set_many",
    "set_provider_groups",
    "set_provider_role",
    "set_rules",
    "set_share",
    "unarchive_team",
]
