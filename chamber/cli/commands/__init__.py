"""One module for each family of commands; each is imported only when one of its commands runs."""
