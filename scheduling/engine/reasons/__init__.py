"""Reasons, ETAs and figures: what a plan tells of what it leaves as it is (section 9)."""
