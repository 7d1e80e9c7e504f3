"""Signing in by identity providers that speak OpenID Connect; on allauth's socialaccount."""
