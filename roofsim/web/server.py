"""Serve the page and answer its questions, to this machine alone unless asked otherwise."""

from __future__ import annotations

import asyncio
import hashlib
import json
import mimetypes
import re
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from roofsim.errors import OutputError, Place, Problem, SpecError
from roofsim.kept import Kept
from roofsim.records import dataclass
from roofsim.spec.reading.json_text import parse_json
from roofsim.web.answers import as_json, raw_json, refusal
from roofsim.web.ask import CATALOG, PAGE, READ, VERBS
from roofsim.web.guards import COOKIE, GuardedApp, PageGuard
from roofsim.web.problems import error_document
from roofsim.web.workers import COMMAND, BusyError, LateError, LostError, WorkerPool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from importlib.resources.abc import Traversable

    from starlette.requests import Request

    from roofsim.web.saved import SavedReports

#: The longest request: a pasted file of 1 MB is up to twice as long as JSON.
LARGEST_REQUEST: Final = 4 * 2**20
#: A longer request is read to its end and dropped, up to this length: a browser that is cut off while it sends never reads why.
_DROPPED: Final = 64 * 2**20
#: Seconds in which all of a request has to be there.
_SENDING: Final = 20.0
#: Answers that are kept, and the longest of them.
_KEPT: Final = 128
_LARGEST_KEPT: Final = 2 * 2**20
#: Bytes from which on an answer is compressed, and how much work is put into that: an answer of 400 kB takes a few milliseconds.
_PRESSED: Final = 2_000
_LEVEL: Final = 4
_FOLDER: Final = "static"
#: What a browser lets a report do, whose style and script stand in it: nothing but show itself, as a page of no origin.
_OF_REPORTS: Final = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "img-src data:; frame-ancestors 'none'"
)
_TYPES: Final = {".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


@dataclass(frozen=True, kw_only=True)
class ServedPage:
    """How the page is served.

    Attributes
    ----------
    guard
        What requests must bring.
    workers, limit
        Processes that answer, and the seconds that each answer may take.
    saved
        The reports of the folder that they may be written to; None: nothing is written.
    waiting
        Questions that may wait for a process.
    command
        What starts a process that answers.
    """

    guard: PageGuard
    workers: int = 2
    limit: float = 60.0
    saved: SavedReports | None = None
    waiting: int = 8
    command: tuple[str, ...] = COMMAND


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
    of_reports = files("roofsim.report.html") / "templates"  # their sections are what the page shows
    shared = {name: StaticFile((of_reports / name).read_bytes(), _TYPES[name[4:]]) for name in ("page.css", "page.js")}
    return shared | _below(files("roofsim.web") / _FOLDER, "")


def _below(folder: Traversable, prefix: str) -> dict[str, StaticFile]:
    named: dict[str, StaticFile] = {}
    for each in folder.iterdir():
        if getattr(each, "is_symlink", lambda: False)():
            continue
        if each.is_dir():
            named |= _below(each, f"{prefix}{each.name}/")
        elif each.is_file():
            ending = each.name[each.name.rfind(".") :]
            kind = _TYPES.get(ending) or mimetypes.guess_type(each.name)[0] or "application/octet-stream"
            named[f"{prefix}{each.name}"] = StaticFile(each.read_bytes(), kind)
    return named


class PageServer:
    """The page, its files and its questions."""

    def __init__(self, serving: ServedPage) -> None:
        self.serving = serving
        self.files = static_files()
        self.pool = WorkerPool(serving.workers, serving.limit, serving.waiting, serving.command)
        self.kept: Kept[tuple[int, bytes]] = Kept(_KEPT)

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """Start the workers, and end them."""
        self.pool.start()
        try:
            yield
        finally:
            await self.pool.end()

    async def page(self, request: Request) -> Response:
        """Return the page, with the token of this server in it."""
        given = request.query_params.get("token")
        if given is not None and self.serving.guard.is_token(given):
            answer: Response = RedirectResponse("/", 303, headers={"cache-control": "no-store"})
            answer.set_cookie(COOKIE, given, httponly=True, samesite="lax")
            return answer
        if not self._may_see(request):
            said = "This page is open to those who have its token: open it by the address that roofsim web printed."
            return Response(said, 403, media_type="text/plain", headers={"cache-control": "no-store"})
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

    def _may_see(self, request: Request) -> bool:
        return self.serving.guard.may_see(dict(request.headers), request.cookies)

    async def catalog(self, request: Request) -> Response:
        """Return what can be asked for."""
        if not self._may_see(request):
            return refusal(403, "the token is missing")
        return await self._answered(request, CATALOG, b"{}")

    async def ask(self, request: Request) -> Response:
        """Answer a question."""
        verb = request.path_params["verb"]
        if verb not in VERBS:
            return refusal(404, f"there is no {verb[:60]!r} to ask")
        body = await _body(request)
        return body if isinstance(body, Response) else await self._answered(request, verb, body)

    async def save(self, request: Request) -> Response:
        """Write the report of a question into the folder."""
        reports = self.serving.saved
        if reports is None:
            return refusal(409, "nothing is saved: start it with --folder DIR to keep reports there")
        body = await _body(request)
        if isinstance(body, Response):
            return body
        try:
            question = _question(body)
            asked = {key: question[key] for key in ("scenario", "options")} | {"html": PAGE}
            answer = await self._answered(request, question["verb"], json.dumps(asked).encode())
            if answer.status_code != 200:
                return answer
            report = json.loads(bytes(answer.body))
            name = reports.save(question, report["headline"], report["html"])
        except SpecError as error:
            return as_json(422, error_document(error))
        except OutputError as error:
            return refusal(507, str(error))
        return as_json(200, {"ok": True, "name": name, "address": f"saved/{name}"})

    async def saved(self, request: Request) -> Response:
        """List the reports of the folder."""
        if not self._may_see(request):
            return refusal(403, "the token is missing")
        reports = self.serving.saved
        folder = None if reports is None else str(reports.folder)
        return as_json(200, {"ok": True, "folder": folder, "reports": [] if reports is None else reports.rows()})

    async def report(self, request: Request) -> Response:
        """Return a report of the folder, which asks nothing of this server or any other."""
        reports = self.serving.saved if self._may_see(request) else None
        text = None if reports is None else reports.read(request.path_params["name"])
        if text is None:
            return refusal(404, "there is no such report")
        return Response(text, media_type="text/html", headers={"content-security-policy": _OF_REPORTS})

    async def _answered(self, request: Request, verb: str, body: bytes) -> Response:
        key = verb, hashlib.sha256(body).digest()
        known = self.kept.known(key)
        if known is None:
            try:
                known = await _unless_gone(request, self._worked_out(verb, body))
            except asyncio.CancelledError:  # nobody reads it, unless the server ends
                return refusal(503, "the question was left, or the server ends")
            except BusyError:
                return refusal(429, "too many questions at once: ask again in a moment", retry_after="1")
            except LateError:
                limit = f"the answer takes longer than {self.serving.limit:g} s, the limit of this server"
                return refusal(504, f"{limit}. Ask for less, or start it with a higher --limit.")
            except LostError:
                return refusal(
                    503,
                    "the process that worked out the answer ended, perhaps for want of memory; ask for less, or again",
                    retry_after="1",
                )
            if len(known[1]) <= _LARGEST_KEPT:
                answer = known
                self.kept.get(key, lambda: answer)
        status, text = known
        return raw_json(status, text)

    async def _worked_out(self, verb: str, body: bytes) -> tuple[int, bytes]:
        answer = await self.pool.ask(verb.encode() + b"\0" + body)
        return 200 if answer[:1] == b"1" else 422, answer[1:]


def _question(body: bytes) -> dict[str, Any]:
    """Return the question of a report.

    Raises
    ------
    SpecError
        Where there is none.
    """
    asked = parse_json(body.decode("utf-8", errors="replace"), "request")
    verb = asked.get("verb")
    if verb not in VERBS or verb in (READ, CATALOG):
        raise SpecError(Problem(f"there is no report of {str(verb)[:60]!r}", Place("verb")))
    return {"verb": verb, "scenario": asked.get("scenario"), "options": asked.get("options")}


async def _body(request: Request) -> bytes | Response:
    """Return the body of a request, or the answer to one that is too long or too slow."""
    try:
        async with asyncio.timeout(_SENDING):
            body = await _read(request)
    except TimeoutError:
        return refusal(408, "the request did not arrive in time", connection="close")
    if body is None:
        return refusal(413, f"the request has more than {LARGEST_REQUEST // 2**20} MiB", connection="close")
    return body


async def _read(request: Request) -> bytes | None:
    """Return the body of a request; None where it is too long."""
    stated = request.headers.get("content-length", "0")
    if not stated.isdecimal() or int(stated) > _DROPPED:
        return None
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > _DROPPED:
            return None
        if size <= LARGEST_REQUEST:
            parts.append(part)
    return b"".join(parts) if size <= LARGEST_REQUEST else None


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


def application(serving: ServedPage) -> GuardedApp:
    """Return the application, as a server of the ASGI runs it."""
    server = PageServer(serving)
    routes = [
        Route("/", server.page, methods=["GET"]),
        Route("/static/{name:path}", server.static, methods=["GET"]),
        Route("/api/catalog", server.catalog, methods=["GET"]),
        Route("/api/save", server.save, methods=["POST"]),
        Route("/api/saved", server.saved, methods=["GET"]),
        Route("/api/{verb}", server.ask, methods=["POST"]),
        Route("/saved/{name}", server.report, methods=["GET"]),
    ]
    pressed = [Middleware(GZipMiddleware, minimum_size=_PRESSED, compresslevel=_LEVEL)]
    return GuardedApp(Starlette(routes=routes, middleware=pressed, lifespan=server.lifespan), serving.guard)
