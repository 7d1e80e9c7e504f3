"""What users submit, its attempts and its events."""
