"""What tests, figures and faults run Chamber on: servers that are thrown away, and a whole deployment as processes."""
