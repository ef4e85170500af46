"""Listen for browsers: one address, one port, until Ctrl-C."""

from __future__ import annotations

import secrets
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from roofsim.errors import Place, Problem, SpecError

if TYPE_CHECKING:
    from pathlib import Path


def listen(*, host: str, port: int, browser: bool, folder: Path | None, limit: float, workers: int) -> None:
    """Serve the page until Ctrl-C.

    Raises
    ------
    SpecError
        Where the port is taken, or what serves the page is not installed.
    """
    try:
        import uvicorn

        from roofsim.web.server import Serving, application
    except ImportError as error:
        hint = "Install it with: pip install 'roofsim[web]'"
        raise SpecError(Problem(f"the page needs {error.name}, which is not installed", hint=hint)) from None
    from roofsim.web.guards import Guard

    app = application(Serving(guard=Guard(token=secrets.token_urlsafe(24)), workers=workers, limit=limit))
    with _bound(host, port) as listener:
        address = f"http://{host}:{listener.getsockname()[1]}/"
        sys.stderr.write(f"roofsim is at {address} (Ctrl-C ends it).\n")
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, server_header=False, limit_concurrency=100, ws="none"
        )
        if browser:
            import webbrowser

            webbrowser.open(address)
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listener])


def _bound(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port))
    except OSError as error:
        hint = "Another program listens there; --port 0 takes any free port."
        raise SpecError(
            Problem(f"cannot listen on {host}:{port}: {error.strerror}", Place("--port"), hint=hint)
        ) from None
