"""Who is asking: the account of a request, by the key that it carries."""

import hashlib

from starlette.requests import HTTPConnection

from service.accounts import NOBODY, Account


def account_of(connection: HTTPConnection) -> Account:
    """Any key will do: its digest tells accounts apart, and the key itself goes no further."""
    authorization, api_key = connection.headers.get("authorization"), connection.headers.get("x-api-key")
    secret = api_key or (authorization or "").removeprefix("Bearer ").strip()
    return Account(id=hashlib.blake2s(secret.encode(), digest_size=8).hexdigest()) if secret else NOBODY
