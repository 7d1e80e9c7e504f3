"""`chamber demo`: the embedded default with an example organisation, simulated clusters and a stream of workloads."""
