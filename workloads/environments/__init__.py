"""Environments: images with their settings, versioned, of a team for whoever submits to it or below."""
