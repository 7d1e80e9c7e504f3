"""Credentials: secrets that are stored encrypted and handed to pods only, of a person or of a team."""
