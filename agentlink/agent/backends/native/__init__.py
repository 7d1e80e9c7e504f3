"""Pods in a Kubernetes cluster, by its own Jobs and its own scheduler; Chamber decides where and when each may go."""
