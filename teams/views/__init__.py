"""Pages of the organisation: the tree, a team, its members, pools."""
