"""Time answers of the local server: the first of one that has just started, another, and one that is kept; seconds, medians.

    python benchmarks/web.py [--repeats 5]

*first*: what a browser waits for behind the page, of a scenario that the server has not seen, with the report's sections. *sizes*:
the same with another length. *kept*: the same question once more. *over in-process*: *sizes* over the same call of `ask` in a
process that is as warm. *processor*: processor seconds of the first answer in a worker, whatever else the machine does.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from roofsim.web.ask import ask  # noqa: E402  # of this checkout


def question(length: int) -> dict[str, Any]:
    """Return what is asked: a model and a card that the server did not ask itself when it started."""
    return {
        "scenario": {"model": "llama2-7b", "workload": {"sequence_length": length}, "hardware": {"gpu": "a100"}},
        "options": {},
    }


class LocalServer:
    """A server of its own, with its workers ready."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "roofsim", "web", "--port", "0", "--workers", "1"]
        paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": paths}
        )
        assert self.process.stderr is not None
        address = re.search(r"http://([^:]+):(\d+)/", self.process.stderr.readline())
        assert address is not None
        self.connection = http.client.HTTPConnection(address[1], int(address[2]), timeout=120)
        self.connection.request("GET", "/")
        page = self.connection.getresponse().read().decode()
        token = re.search(r'name="roofsim-token" content="([^"]+)"', page)
        assert token is not None
        self.headers = {"X-Roofsim-Token": token[1], "Content-Type": "application/json"}
        self.connection.request("GET", "/api/catalog")  # waits until a worker is ready
        self.connection.getresponse().read()

    def seconds(self, length: int) -> float:
        """Return how long an answer takes."""
        started = time.perf_counter()
        self.connection.request("POST", "/api/run", json.dumps(question(length)), self.headers)
        answer = self.connection.getresponse()
        text = answer.read()
        took = time.perf_counter() - started
        assert answer.status == 200, text[:300]
        return took

    def end(self) -> None:
        """End it."""
        self.connection.close()
        self.process.send_signal(signal.SIGINT)
        with self.process:
            self.process.wait(30)


#: Answer a first question in a process that is as warm as a worker, and print processor seconds.
_FIRST = (
    "import json, sys, time\nfrom roofsim.web.worker import answered, warm\nwarm()\nstarted = time.process_time()\n"
    "answered(b'run\\0' + sys.argv[1].encode())\nprint(time.process_time() - started)"
)


def _processor() -> float:
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-c", _FIRST, json.dumps(question(1024))]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": paths})
    return float(done.stdout)


def _in_process(length: int) -> float:
    started = time.perf_counter()
    assert ask("run", question(length))["ok"]
    return time.perf_counter() - started


def measure(repeats: int = 3) -> dict[str, float]:
    """Return the figures, by name."""
    times: dict[str, list[float]] = {"first": [], "sizes": [], "kept": [], "in process": [], "processor": []}
    _in_process(1024)
    for _ in range(repeats):
        server = LocalServer()
        try:
            times["first"].append(server.seconds(1024))
            server.seconds(1536)
            times["sizes"].append(server.seconds(2048))
            times["kept"].append(server.seconds(2048))
        finally:
            server.end()
        times["processor"].append(_processor())
        times["in process"].append(_in_process(2048 + len(times["first"])))
    medians = {name: statistics.median(values) for name, values in times.items()}
    return medians | {"over in-process": medians["sizes"] / medians["in process"]}


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    for name, value in measure(parser.parse_args().repeats).items():
        print(f"{name:20} {value:10.4f}")


if __name__ == "__main__":
    main()
