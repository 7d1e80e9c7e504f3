"""`/metrics`: what Prometheus reads of a deployment, from the tables, at the moment it asks."""
