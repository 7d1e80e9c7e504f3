"""One pool while a cycle decides: its state, its queue from the head, scaling up (sections 3 to 7)."""
