"""What identity providers keep here over SCIM 2.0: people and groups; on scim2-server."""
