"""Second factors: codes of an authenticator app, recovery codes, passkeys; allauth's, in Chamber's words."""
