"""Who is asking: requests come in with the account whose key they carry, or are turned away, before anything is read.

The vendors' two headers are one: either is taken on every route. Where no key is asked for, any will do: its digest
tells accounts apart, and the key itself goes no further in either case.
"""

import hashlib

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.dialects import spoken
from service import metrics
from service.accounts import NOBODY, Account
from service.errors import Forbidden, ServiceError, Unauthorized
from service.keys import Keys
from service.settings import Settings

_ACCOUNT = "fastmode.account"  # scope key
_GUARDED = "/v1/"  # what is sold; what operators and tests ask for has rules of its own
_KEY_MAX = 4096  # characters; what is longer is no key


def account_of(connection: HTTPConnection) -> Account:
    """Whose request this is."""
    account: Account = connection.scope.get(_ACCOUNT, NOBODY)
    return account


class Door:
    """`app`, for those who may come in. `auth` as in the settings.

    With `auto`, keys are asked for as soon as there is one, and always of other machines: whoever can reach a service
    that listens to them could use it.
    """

    def __init__(self, app: ASGIApp, keys: Keys, settings: Settings) -> None:
        self._app = app
        self._keys = keys
        self._auth = settings.auth
        self._always = settings.keys_wanted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and scope["path"].startswith(_GUARDED):
            try:
                scope[_ACCOUNT] = await self._identify(HTTPConnection(scope))
            except ServiceError as error:
                metrics.refused(error)
                await spoken(scope).refuse(error)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _identify(self, connection: HTTPConnection) -> Account:
        if connection.scope.get("method") == "OPTIONS":
            return NOBODY  # it says what may be done, and does nothing
        key = _key_in(connection)
        if self._auth == "open":
            return _anybody(key)
        account = self._keys.known(key)
        if account is None and not await self._wanted():
            return _anybody(key)
        account = account or await self._keys.find(key)
        if account is None:
            raise Unauthorized(_WRONG if key else _MISSING)
        if account.blocked:
            raise Forbidden("This key is blocked.", code="key_blocked")
        return account

    async def _wanted(self) -> bool:
        """Whether a key is asked for. Raises Unavailable: nobody can say yet."""
        if self._always:
            return True
        if not self._keys.heard:
            await self._keys.refresh()
        return self._keys.any


_MISSING = (
    "You didn't provide an API key. Send one in an Authorization header with Bearer auth (Authorization: Bearer KEY), "
    "or in an x-api-key header."
)
_WRONG = "Incorrect API key provided. Whoever runs this service can make one: `fastmode keys create NAME`."


def _key_in(connection: HTTPConnection) -> str:
    """Of both headers, the API's own counts."""
    scheme, _, bearer = connection.headers.get("authorization", "").partition(" ")
    said = connection.headers.get("x-api-key") or (bearer if scheme.lower() == "bearer" else scheme)
    return said.strip()[:_KEY_MAX]


def _anybody(key: str) -> Account:
    return Account(id=hashlib.blake2s(key.encode(), digest_size=8).hexdigest()) if key else NOBODY
