"""The API of the organisation: teams, members, shares, rules, pools and the audit trail."""
