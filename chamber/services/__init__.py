"""Service accounts: what programs are known as, and their tokens."""
