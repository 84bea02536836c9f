"""A credential that permits everything, for the server with this data directory.

The token of `flovyn dev` may neither create tenants nor set quotas. The secret that signed it is in the same directory.
"""

import base64
import hashlib
import hmac
import json
import pathlib


def _encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def everything(data_directory):
    place = pathlib.Path(data_directory)
    given = json.loads((place / "credentials.json").read_text(encoding="utf-8"))["api_token"]
    head, claims, _ = given.split(".")
    claims = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    claims.update(tenants=["*"], role="server-admin")
    signed = f"{head}.{_encoded(json.dumps(claims).encode())}"
    secret = (place / "jwt.secret").read_bytes().strip()
    return f"{signed}.{_encoded(hmac.new(secret, signed.encode(), hashlib.sha256).digest())}"
