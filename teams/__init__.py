"""The organisation's tree, its members, capacity pools and the audit trail."""
