"""Answer calls in a process of its own, which can be stopped in the middle of one: JSON, a line each, on its standard streams."""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any, Final, TextIO

from roofsim.agents.answers import ToolAnswer, check_arguments, tool_answer
from roofsim.agents.cut import chosen_parts, readable
from roofsim.agents.tools import READING
from roofsim.errors import shortened
from roofsim.output import WAY_OUT, visible, without_files
from roofsim.web.confined import confine, limit_memory
from roofsim.web.problems import error_document
from roofsim.web.watch import watched

#: Seconds between two words on how far a call is.
_OFTEN: Final = 0.2
#: Bytes of memory that a call may take.
_MEMORY: Final = 6 * 2**30
#: Answers that are kept, for the rest of a long one.
_KEPT: Final = 4
#: What an agent does in place of naming a file.
_WAY_OUT: Final = (
    "Give what the file holds, as a mapping; or let files of a folder be named: `roofsim mcp --folder DIR`."
)
#: Characters of the text of an answer.
_LONGEST_TEXT: Final = 8_000


def main() -> None:
    """Answer one call after the other until nobody asks any more."""
    said, sys.stdout = sys.stdout, sys.stderr  # whatever prints, the answers stay alone
    limit_memory(_MEMORY)
    calls = _calls(sys.stdin)
    folders = [Path(folder) for folder in sys.argv[1:]]
    if folders:
        os.chdir(folders[0])
    sys.dont_write_bytecode = True
    confine(folders)
    kept: OrderedDict[str, ToolAnswer] = OrderedDict()
    with without_files(folders), watched(_Watched(said)):
        while True:
            _say(said, _answered(calls.get(), kept))


def _calls(stream: TextIO) -> queue.Queue[dict[str, Any]]:
    """Return the calls as they come; when nobody can ask any more, the process ends, whatever it is doing."""
    calls: queue.Queue[dict[str, Any]] = queue.Queue()

    def read() -> None:
        for line in stream:
            calls.put(json.loads(line))
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    return calls


def _answered(call: dict[str, Any], kept: OrderedDict[str, ToolAnswer]) -> dict[str, Any]:
    """Return an answer or an error, as plain data."""
    try:
        return {"answer": _shown(call, kept)}
    except Exception as error:  # a defect is said, too, and the next call is answered
        said: str = error_document(error)["error"]["message"]
        return {"error": visible(said.replace(WAY_OUT, _WAY_OUT))}


def _shown(call: dict[str, Any], kept: OrderedDict[str, ToolAnswer]) -> dict[str, Any]:
    name, arguments = call["tool"], call["arguments"]
    check_arguments(name, arguments)
    asked = {key: value for key, value in arguments.items() if key not in READING}
    key = json.dumps([name, asked], sort_keys=True)
    answer = kept.pop(key, None) or tool_answer(name, asked)
    kept[key] = answer
    while len(kept) > _KEPT:
        kept.popitem(last=False)
    keys, start = arguments.get("keys") or [], arguments.get("start") or 0
    data, notes = readable(chosen_parts(answer.data, keys, start), call["limit"], start)
    return {
        "data": data,
        "left_out": notes,
        "line": visible(answer.line),
        "text": shortened(answer.text, _LONGEST_TEXT),
    }


class _Watched:
    """Tells how far a call is, not too often."""

    def __init__(self, said: TextIO) -> None:
        self.said, self.last = said, time.monotonic()

    def __call__(self, done: int, of: int) -> None:
        now = time.monotonic()
        if now - self.last >= _OFTEN:
            self.last = now
            _say(self.said, {"progress": [done, of]})


def _say(said: TextIO, data: dict[str, Any]) -> None:
    said.write(json.dumps(data) + "\n")
    said.flush()


if __name__ == "__main__":
    main()
