"""Stand in the place of frameworks that are too large to be installed for the tests of examples."""
