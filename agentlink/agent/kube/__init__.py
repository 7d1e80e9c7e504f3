"""The Kubernetes API as the agent uses it: raw objects over a few connections, kept up to date by watches."""
