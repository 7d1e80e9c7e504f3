"""What a team may have: the tree of teams, the guarantee that is charged, the ceilings (sections 2 and 3)."""
