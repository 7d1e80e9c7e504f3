"""What a team may have: the tree of teams, the guarantee charged, the ceilings, the entitlement (sections 2 and 3)."""
