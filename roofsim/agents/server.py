"""Speak the Model Context Protocol over standard input and output: tools, what they answer, and what there is to read."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from roofsim import __version__
from roofsim.agents.cut import LEFT_OUT, READABLE
from roofsim.agents.outputs import output_form
from roofsim.agents.resources import resource_text, resources
from roofsim.agents.tools import TOOLS, tool_form
from roofsim.errors import NoDataError, UnknownNameError
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.agents.pool import CallPool

_INSTRUCTIONS: Final = (
    "roofsim predicts time, memory, cost and limits of neural networks on GPUs, without running them. Start with `run` or "
    "`compare`; use `list` where a name is not known. Figures are in SI units: seconds, bytes, FLOPs, dollars. Every time comes "
    "with an 80 % interval: differences inside it are undecided. Say so where you hand on a figure that an answer calls assumed."
)


@dataclass(frozen=True, kw_only=True)
class ServerLimits:
    """What a server may do for its agent.

    Attributes
    ----------
    folders
        Folders whose files a call may name; none: no file of the user's is read.
    seconds
        Longest time of a call.
    together
        Calls that run at once.
    characters
        Longest answer.
    """

    folders: tuple[str, ...] = ()
    seconds: float = 120.0
    together: int = 2
    characters: int = READABLE


def serve_agents(limits: ServerLimits) -> None:
    """Answer an agent over standard input and output until it goes away.

    Raises
    ------
    NoDataError
        When the protocol's library is not installed.
    """
    try:
        importlib.import_module("mcp.server.stdio")
    except ImportError:
        raise NoDataError("`roofsim mcp` needs mcp, which is not installed: pip install 'roofsim[mcp]'") from None
    import anyio

    anyio.run(_serve, limits)


async def _serve(limits: ServerLimits) -> None:
    from mcp.server.stdio import stdio_server

    from roofsim.agents.pool import CallPool

    pool = CallPool(limits.folders, most=limits.together, seconds=limits.seconds, characters=limits.characters)
    server = agent_server(pool)
    try:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())
    finally:
        await pool.close()


def agent_server(pool: CallPool) -> Any:
    """Return the server of the protocol's library, whose calls the processes of a pool answer."""
    import mcp_types as types
    from mcp.server.lowlevel import Server

    async def list_tools(_context: Any, _asked: Any) -> Any:
        return types.ListToolsResult(tools=[_tool(name) for name in TOOLS])

    async def call_tool(context: Any, asked: Any) -> Any:
        return await _called(pool, context, asked.name, asked.arguments or {})

    async def list_resources(_context: Any, _asked: Any) -> Any:
        return types.ListResourcesResult(
            resources=[
                types.Resource(uri=each.address, name=each.address, title=each.title, mime_type=each.kind)
                for each in resources()
            ]
        )

    async def read_resource(_context: Any, asked: Any) -> Any:
        from mcp.shared.exceptions import MCPError

        try:
            kind, text = resource_text(str(asked.uri))
        except UnknownNameError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from None
        contents = types.TextResourceContents(uri=asked.uri, mime_type=kind, text=text)
        return types.ReadResourceResult(contents=[contents])

    return Server(
        "roofsim",
        version=__version__,
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
    )


def _tool(name: str) -> Any:
    import mcp_types as types

    tool = TOOLS[name]
    hints = types.ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    return types.Tool(
        name=name,
        title=tool.title,
        description=tool.about,
        input_schema=tool_form(name),
        output_schema=output_form(name),
        annotations=hints,
    )


async def _called(pool: CallPool, context: Any, name: str, arguments: dict[str, Any]) -> Any:
    """Return the answer to a call, or its error, as the protocol has them."""
    import mcp_types as types

    from roofsim.agents.pool import StoppedError

    async def told(done: int, of: int) -> None:
        await context.session.report_progress(float(done), float(of))

    try:
        said = await pool.answer(name, arguments, told)
    except StoppedError as error:
        said = {"error": str(error)}
    if "error" in said:
        return types.CallToolResult(content=[types.TextContent(text=said["error"])], is_error=True)
    answer = said["answer"]
    data, notes = answer["data"], answer["left_out"]
    if notes:
        data = {**data, LEFT_OUT: notes}
    texts = [answer["line"], answer["text"], *map(_note, notes)]
    content = [types.TextContent(text=text) for text in texts if text]
    return types.CallToolResult(content=content, structured_content=data)


def _note(note: dict[str, Any]) -> str:
    """Say what was left out of an answer, and how to ask for it."""
    key = note["key"]
    if "next" in note:
        again = f'call again with keys: ["{key}"], start: {note["next"]}'
        return f"{key}: {note['shown']:,} of {note['of']:,} are here, from {note['start']:,} on; for more {again}."
    below = f', or a part of it, such as "{key}.{note["parts"][0]}"' if note["parts"] else ""
    return f'{key} ({note["characters"]:,} characters) is left out; for it call again with keys: ["{key}"]{below}.'
