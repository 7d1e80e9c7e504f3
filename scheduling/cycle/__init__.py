"""One cycle after the other: read, decide, apply, tell; who runs them, what wakes them, what they leave behind."""
