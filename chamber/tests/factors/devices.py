"""An authenticator app and a passkey, as programs: what a telephone and a browser do."""

import hashlib
import json
import secrets
import time
from typing import Any

from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from allauth.mfa.webauthn.internal.auth import WebAuthn
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from fido2.cose import ES256
from fido2.utils import websafe_decode, websafe_encode
from fido2.webauthn import AttestationObject, AttestedCredentialData, AuthenticatorData

from chamber.models import User

PERIOD_SECONDS = 30
FLAGS = AuthenticatorData.FLAG


def code_of(secret: str, *, periods: int = 0) -> str:
    """Return what the app shows now, or so many periods later."""
    value = hotp_value(secret, int(time.time()) // PERIOD_SECONDS + periods)
    return str(format_hotp_value(value))


def give_passkey(user: User, name: str = "laptop") -> Authenticator:
    """Give somebody a passkey, as if a page had."""
    asked = {"user": {"id": "AAAA"}, "rp": {"id": "testserver"}, "challenge": "AAAA"}
    made = json.loads(Passkey().create(json.dumps({"publicKey": asked})))
    return WebAuthn.add(user, name, made).instance


class Passkey:
    """A passkey for one host: it answers what a browser is asked by a page at `origin`."""

    def __init__(self, *, origin: str = "https://testserver", verifies: bool = True) -> None:
        self.origin, self.verifies = origin, verifies
        self.id = secrets.token_bytes(32)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._user = b""

    def create(self, asked: str) -> str:
        """Return the answer to the page that adds a passkey."""
        options = json.loads(asked)["publicKey"]
        self._user = websafe_decode(options["user"]["id"])
        public = ES256.from_cryptography_key(self._key.public_key())  # type: ignore[no-untyped-call]
        made = AttestedCredentialData.create(b"\0" * 16, self.id, public)
        data = self._data(options["rp"]["id"], FLAGS.AT, made)
        answer = {
            "clientDataJSON": self._client_data("webauthn.create", options),
            "attestationObject": websafe_encode(bytes(AttestationObject.create("none", data, {}))),
        }
        return self._answer(answer, {"credProps": {"rk": True}})

    def get(self, asked: str, *, challenge: str = "") -> str:
        """Return the answer to a page that asks for the passkey."""
        options = json.loads(asked)["publicKey"]
        options["challenge"] = challenge or options["challenge"]
        data = self._data(options["rpId"], FLAGS(0))
        client_data = self._client_data("webauthn.get", options)
        signed = bytes(data) + hashlib.sha256(websafe_decode(client_data)).digest()
        answer = {
            "clientDataJSON": client_data,
            "authenticatorData": websafe_encode(bytes(data)),
            "signature": websafe_encode(self._key.sign(signed, ec.ECDSA(SHA256()))),
            "userHandle": websafe_encode(self._user),
        }
        return self._answer(answer, {})

    def _data(self, host: str, flags: FLAGS, made: AttestedCredentialData | None = None) -> AuthenticatorData:
        verified = FLAGS.UV if self.verifies else FLAGS(0)
        digest = hashlib.sha256(host.encode()).digest()
        data: AuthenticatorData = AuthenticatorData.create(
            digest, FLAGS.UP | verified | flags, 0, made or b""
        )
        return data

    def _client_data(self, kind: str, options: dict[str, Any]) -> str:
        told = {"type": kind, "challenge": options["challenge"], "origin": self.origin}
        return websafe_encode(json.dumps(told).encode())

    def _answer(self, answer: dict[str, str], extensions: dict[str, Any]) -> str:
        name = websafe_encode(self.id)
        found = {"id": name, "rawId": name, "type": "public-key", "response": answer}
        return json.dumps({**found, "clientExtensionResults": extensions})
