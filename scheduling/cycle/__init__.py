"""One cycle after the other: read, decide, apply, tell; which process runs them, what wakes it, what they leave."""
