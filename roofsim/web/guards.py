"""Let no other page and no other name in: what a request must bring, and what every answer says to a browser."""

from __future__ import annotations

import hmac
import ipaddress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
    App = Callable[[Scope, Receive, Send], Awaitable[None]]

TOKEN: Final = "x-roofsim-token"
COOKIE: Final = "roofsim"
#: Said with every answer: nothing of another origin, nothing written into the page, no frame around it, no name handed on.
HEADERS: Final = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "cache-control": "no-cache",
}
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, kw_only=True)
class PageGuard:
    """What requests must bring.

    Attributes
    ----------
    token
        The secret of this server.
    names
        Names by which it may be asked beside those of the machine itself.
    open_to_others
        Whether other machines reach it: then the page itself is for those who have the token.
    """

    token: str
    names: tuple[str, ...] = ()
    open_to_others: bool = False

    def refusal(self, method: str, path: str, headers: dict[str, str]) -> str | None:
        """Return why a request is refused; None: it passes."""
        if not self.knows(headers.get("host", "")):
            return "this server is not called so: open it by the address that it printed"
        if self._from_elsewhere(method, path, headers):
            return "asked by a page of another origin"
        if method == "POST":
            return self._post_refusal(headers)
        return None

    def knows(self, host: str) -> bool:
        """Tell whether a Host is one of this server: names that somebody else may point here are not."""
        name = _name_of(host)
        if name is None:
            return False
        if name in _LOOPBACK or name in self.names:
            return True
        return self.open_to_others and _is_address(name)  # a name can be pointed here by its owner, an address cannot

    def _from_elsewhere(self, method: str, path: str, headers: dict[str, str]) -> bool:
        """Tell whether a page of another origin asks."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower():
            return True
        opened = method == "GET" and path == "/" and headers.get("sec-fetch-mode") == "navigate"  # a link to the page
        return site not in (None, "same-origin", "none") and not opened

    def _post_refusal(self, headers: dict[str, str]) -> str | None:
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return "expected Content-Type: application/json"
        if not self.is_token(headers.get(TOKEN, "")):
            return "the token of the page is missing or old: load the page again"
        return None

    def may_see(self, headers: dict[str, str], cookies: dict[str, str]) -> bool:
        """Tell whether the page itself may be shown: to this machine always, to others with the token."""
        return not self.open_to_others or self.is_token(headers.get(TOKEN, "") or cookies.get(COOKIE, ""))

    def is_token(self, given: str) -> bool:
        """Tell whether a text is the token, in a time that says nothing about it."""
        return hmac.compare_digest(given.encode(), self.token.encode())


def _name_of(host: str) -> str | None:
    """Return the name in a Host, without its port; None where there is none."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port
    except ValueError:
        return None
    if parts.path or parts.query or parts.fragment or "@" in parts.netloc or parts.hostname is None:
        return None
    return parts.hostname.rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class GuardedApp:
    """An application behind a guard."""

    def __init__(self, app: App, guard: PageGuard) -> None:
        self.app, self.guard = app, guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request that may pass, and say with each answer what a browser must not do with it."""
        if scope["type"] != "http":
            await (_refused_socket(receive, send) if scope["type"] == "websocket" else self.app(scope, receive, send))
            return

        async def said(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                given = {key.lower() for key, _ in message.get("headers", ())}
                message["headers"] = [
                    *message.get("headers", ()),
                    *((key.encode(), value.encode()) for key, value in HEADERS.items() if key.encode() not in given),
                ]
            await send(message)

        headers: dict[str, str] = {}
        for raw, value in scope["headers"]:
            key = raw.decode("latin-1").lower()
            # Two of a header that decides here are none that is known.
            headers[key] = f"{headers[key]}, {value.decode('latin-1')}" if key in headers else value.decode("latin-1")
        refused = self.guard.refusal(scope["method"], scope["path"], headers)
        if refused is None:
            await self.app(scope, receive, said)
            return
        from roofsim.web.answers import refusal

        await refusal(403, refused)(scope, receive, said)


async def _refused_socket(receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.close", "code": 1008})
