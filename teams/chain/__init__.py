"""The chain of the audit trail: what a row's digest is over, sealing, checking, and files that are checked elsewhere.

`rows` and `files` know no Django: `chamber audit verify FILE` runs where no server is.
"""
