"""Serve the page and answer its questions, to this machine alone unless asked otherwise."""

from __future__ import annotations

import asyncio
import hashlib
import mimetypes
import re
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from roofsim.kept import Kept
from roofsim.records import dataclass
from roofsim.web.answers import raw_json, refusal
from roofsim.web.ask import CATALOG, VERBS
from roofsim.web.guards import Guard, GuardedApp
from roofsim.web.workers import BusyError, LateError, LostError, WorkerPool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from importlib.resources.abc import Traversable

    from starlette.requests import Request

#: The longest request: a pasted file of 1 MB is up to twice as long as JSON.
LARGEST_REQUEST: Final = 4 * 2**20
#: Seconds in which all of a request has to be there.
_SENDING: Final = 20.0
#: Questions that wait for a worker.
WAITING: Final = 8
#: Answers that are kept, and the longest of them.
_KEPT: Final = 128
_LARGEST_KEPT: Final = 2 * 2**20
_FOLDER: Final = "static"
#: Files that pages of reports hold in themselves, and that the page asks for.
_OF_REPORTS: Final = ("page.css", "page.js")
_TYPES: Final = {".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


@dataclass(frozen=True, kw_only=True)
class Serving:
    """How the page is served.

    Attributes
    ----------
    guard
        What requests must bring.
    workers, limit
        Processes that answer, and the seconds that each answer may take.
    """

    guard: Guard
    workers: int = 2
    limit: float = 60.0


@dataclass(frozen=True)
class StaticFile:
    """A file of the page."""

    content: bytes
    kind: str

    @property
    def tag(self) -> str:
        """What names its content."""
        return f'"{hashlib.sha256(self.content).hexdigest()[:20]}"'


def static_files() -> dict[str, StaticFile]:
    """Return the files of the page by name; nothing else has one."""
    own = dict(_below(files("roofsim.web") / _FOLDER, ""))
    report = dict(_below(files("roofsim.report.html") / "templates", ""))
    return own | {name: report[name] for name in _OF_REPORTS}


def _below(folder: Traversable, prefix: str) -> Any:
    for each in folder.iterdir():
        if getattr(each, "is_symlink", lambda: False)():
            continue
        if each.is_dir():
            yield from _below(each, f"{prefix}{each.name}/")
        elif each.is_file():
            ending = each.name[each.name.rfind(".") :]
            kind = _TYPES.get(ending) or mimetypes.guess_type(each.name)[0] or "application/octet-stream"
            yield f"{prefix}{each.name}", StaticFile(each.read_bytes(), kind)


class PageServer:
    """The page, its files and its questions."""

    def __init__(self, serving: Serving) -> None:
        self.serving = serving
        self.files = static_files()
        self.pool = WorkerPool(serving.workers, serving.limit, WAITING)
        self.kept: Kept[tuple[int, bytes]] = Kept(_KEPT)

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """Start the workers, and end them."""
        self.pool.start()
        try:
            yield
        finally:
            await self.pool.end()

    async def page(self, _: Request) -> Response:
        """Return the page, with the token of this server in it."""
        text = self.files["index.html"].content.decode("utf-8")
        for name, value in (("roofsim-token", self.serving.guard.token), ("roofsim-back", "server")):
            text = re.sub(rf'(<meta name="{name}" content=")[^"]*(")', rf"\g<1>{value}\g<2>", text, count=1)
        return Response(text, media_type="text/html", headers={"cache-control": "no-store"})

    async def static(self, request: Request) -> Response:
        """Return a file of the page."""
        file = self.files.get(request.path_params["name"])
        if file is None:
            return refusal(404, "there is no such file")
        headers = {"etag": file.tag}
        if request.headers.get("if-none-match") == file.tag:
            return Response(status_code=304, headers=headers)
        return Response(file.content, media_type=file.kind, headers=headers)

    async def catalog(self, request: Request) -> Response:
        """Return what can be asked for."""
        return await self._answered(request, CATALOG, b"{}")

    async def ask(self, request: Request) -> Response:
        """Answer a question."""
        verb = request.path_params["verb"]
        if verb not in VERBS:
            return refusal(404, f"there is no {verb[:60]!r} to ask")
        try:
            async with asyncio.timeout(_SENDING):
                body = await _body(request)
        except TimeoutError:
            return refusal(408, "the request did not arrive in time", connection="close")
        if body is None:
            return refusal(413, f"the request has more than {LARGEST_REQUEST // 2**20} MiB", connection="close")
        return await self._answered(request, verb, body)

    async def _answered(self, request: Request, verb: str, body: bytes) -> Response:
        key = verb, hashlib.sha256(body).digest()
        known = self.kept.known(key)
        if known is None:
            try:
                known = await _unless_gone(request, self._worked_out(verb, body))
            except BusyError:
                return refusal(429, "too many questions at once: ask again in a moment", retry_after="1")
            except LateError:
                limit = f"the answer takes longer than {self.serving.limit:g} s, the limit of this server"
                return refusal(504, f"{limit}. Ask for less, or start it with a higher --limit.")
            except LostError:
                return refusal(503, "the process that worked out the answer ended; ask again", retry_after="1")
            if len(known[1]) <= _LARGEST_KEPT:
                found = known
                self.kept.get(key, lambda: found)
        status, text = known
        return raw_json(status, text)

    async def _worked_out(self, verb: str, body: bytes) -> tuple[int, bytes]:
        answer = await self.pool.ask(verb.encode() + b"\0" + body)
        return 200 if answer[:1] == b"1" else 422, answer[1:]


async def _body(request: Request) -> bytes | None:
    """Return the body of a request; None where it is too long."""
    stated = request.headers.get("content-length", "0")
    if not stated.isdecimal() or int(stated) > LARGEST_REQUEST:
        return None
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > LARGEST_REQUEST:
            return None
        parts.append(part)
    return b"".join(parts)


async def _unless_gone(request: Request, work: Any) -> Any:
    """Return what work gives, unless the client leaves before: then the work is cancelled."""
    loop = asyncio.get_running_loop()
    working, leaving = loop.create_task(work), loop.create_task(_gone(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        if not working.done():
            working.cancel()
    return await working


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def application(serving: Serving) -> GuardedApp:
    """Return the application, as a server of the ASGI runs it."""
    server = PageServer(serving)
    routes = [
        Route("/", server.page, methods=["GET"]),
        Route("/static/{name:path}", server.static, methods=["GET"]),
        Route("/api/catalog", server.catalog, methods=["GET"]),
        Route("/api/{verb}", server.ask, methods=["POST"]),
    ]
    return GuardedApp(Starlette(routes=routes, lifespan=server.lifespan), serving.guard)
