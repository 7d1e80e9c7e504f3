"""People: who has an account, how they get in, and how they are put out."""
