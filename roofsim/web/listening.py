"""Listen for browsers: one address, one port, until Ctrl-C."""

from __future__ import annotations

import base64
import ipaddress
import json
import math
import os
import secrets
import socket
import sys
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Place, Problem, SpecError
from roofsim.records import dataclass
from roofsim.web.guards import PageGuard
from roofsim.web.saved import SavedReports

if TYPE_CHECKING:
    from pathlib import Path

    from uvicorn import Server

    from roofsim.web.guards import GuardedApp

#: Connections at a time; more are told that the server is busy.
_CONNECTIONS: Final = 100
#: Addresses that stand for every network of the machine.
_EVERY: Final = ("0.0.0.0", "::")  # compared with, not listened on


@dataclass(frozen=True, kw_only=True)
class Listening:
    """Where and how the page is served.

    Attributes
    ----------
    host, port
        The address; port 0 is any that is free.
    others
        Whether other machines may reach it.
    browser
        Whether it is opened in a browser.
    folder
        Where reports are saved; None: nothing is written.
    limit, workers
        Seconds that an answer may take, and processes that answer.
    scenario
        What the page opens with.
    """

    host: str = "127.0.0.1"
    port: int = 8765
    others: bool = False
    browser: bool = False
    folder: Path | None = None
    limit: float = 60.0
    workers: int = 2
    scenario: dict[str, Any] | None = None


def read_limit(text: str) -> float:
    """Return seconds.

    Raises
    ------
    SpecError
        For what is no number of seconds above zero.
    """
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0.0 < seconds < math.inf:
        raise SpecError(Problem(f"expected seconds above zero; got {text[:60]!r}", Place("--limit")))
    return seconds


def listen(asked: Listening) -> None:
    """Serve the page until Ctrl-C.

    Raises
    ------
    SpecError
        Where the port is taken, other machines would reach the page unasked, or what serves it is not installed.
    """
    _check_host(asked)
    saved = SavedReports.of(asked.folder)
    token = secrets.token_urlsafe(24)
    with _bound(asked.host, asked.port) as listener:
        port = listener.getsockname()[1]
        app = _application(asked, PageGuard(token=token, names=_names(asked), open_to_others=asked.others), saved)
        address = f"http://{_written(asked.host)}:{port}/"
        shown = f"{address}?token={token}" if asked.others else address
        shown += "" if asked.scenario is None else link_of(asked.scenario)
        if asked.others:
            sys.stderr.write(
                "Other machines can reach this page. Whoever has its address with the token can ask it, which takes this machine's "
                "processors; the connection is not encrypted. No file of this machine is read or written for them"
                f"{'' if saved is None else f', but for reports in {saved.folder}'}.\n"
            )
        sys.stderr.write(f"roofsim is at {shown}\nCtrl-C ends it.\n")
        sys.stderr.flush()
        if asked.browser:
            import webbrowser

            webbrowser.open(shown)
        _run(app, listener)


def link_of(scenario: dict[str, Any], verb: str = "run") -> str:
    """Return the end of an address that opens the page with a question.

    >>> link_of({"model": "gpt2-124m"})
    '#scenario=eyJ2ZXJiIjoicnVuIiwic2NlbmFyaW8iOnsibW9kZWwiOiJncHQyLTEyNG0ifSwib3B0aW9ucyI6e319'
    """
    question = {"verb": verb, "scenario": scenario, "options": {}}
    text = json.dumps(question, separators=(",", ":"), ensure_ascii=False)
    return f"#scenario={base64.urlsafe_b64encode(text.encode()).decode().rstrip('=')}"


def _application(asked: Listening, guard: PageGuard, saved: SavedReports | None) -> GuardedApp:
    try:
        import uvicorn  # noqa: F401  # it runs what is made here

        from roofsim.web.server import ServedPage, application
    except ImportError as error:
        hint = "Install it with: pip install 'roofsim[web]'"
        missing = (error.name or "").partition(".")[0]
        raise SpecError(Problem(f"the page needs {missing}, which is not installed", hint=hint)) from None
    return application(ServedPage(guard=guard, workers=asked.workers, limit=asked.limit, saved=saved))


def server_of(app: GuardedApp) -> Server:
    """Return the server of an application, with limits on connections and on the time that a request takes to begin."""
    import uvicorn

    from roofsim.web.patience import PatientProtocol  # with uvicorn, an extra

    config = uvicorn.Config(
        app,
        http=PatientProtocol,
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=_CONNECTIONS,
        timeout_graceful_shutdown=2,
        ws="none",
    )
    return uvicorn.Server(config)


def _run(app: GuardedApp, listener: socket.socket) -> None:
    """Run until Ctrl-C, which is how it ends."""
    try:
        server_of(app).run(sockets=[listener])
    except KeyboardInterrupt:
        sys.stderr.write("Stopped.\n")


def _check_host(asked: Listening) -> None:
    if not asked.others and not _is_loopback(asked.host):
        hint = (
            "Add --allow-others if they may; or leave out --host, and reach it from another machine through "
            "`ssh -L 8765:localhost:8765 HOST`."
        )
        raise SpecError(Problem(f"{asked.host} is an address that other machines reach", Place("--host"), hint=hint))


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _names(asked: Listening) -> tuple[str, ...]:
    """Return the names by which other machines may call this one."""
    return (
        (asked.host.lower(), socket.gethostname().lower(), socket.getfqdn().lower()) if asked.others else (asked.host,)
    )


def _written(host: str) -> str:
    """Return a host as an address has it."""
    name = socket.gethostname() if host in _EVERY else host
    return f"[{name}]" if ":" in name else name


def _bound(host: str, port: int) -> socket.socket:
    """Return a socket that listens; several programs never share a port.

    Raises
    ------
    SpecError
        Where it cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        hint = "--port 0 takes any port that is free."
        number = getattr(error, "errno", None)
        said = os.strerror(number) if number and number > 0 else error
        raise SpecError(Problem(f"cannot listen on {host}, port {port}: {said}", Place("--port"), hint=hint)) from None
