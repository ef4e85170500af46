"""The server as it runs: under uvicorn in a thread, and as the command, with its own processes that answer."""

from __future__ import annotations

import gzip
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from roofsim.web import patience
from roofsim.web.guards import TOKEN, PageGuard
from roofsim.web.listening import server_of
from roofsim.web.server import LARGEST_REQUEST, ServedPage, application
from tests.surely import sure

TOY = (sys.executable, str(Path(__file__).with_name("toy_worker.py")))
ROOT = Path(__file__).parents[2]
SECRET = "the-token-of-this-server"


@contextmanager
def running(**how):
    """Run a server in a thread and give its port."""
    app = application(ServedPage(guard=PageGuard(token=SECRET), **{"command": TOY, **how}))
    listener = socket.create_server(("127.0.0.1", 0))
    server = server_of(app)
    thread = threading.Thread(target=lambda: server.run(sockets=[listener]))
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


def post(port, body, verb="run", token=SECRET, timeout=60):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    headers = {TOKEN: token, "Content-Type": "application/json", "Origin": f"http://127.0.0.1:{port}"}
    try:
        connection.request("POST", f"/api/{verb}", json.dumps(body), headers)
        answer = connection.getresponse()
        body = answer.read()
        return answer.status, json.loads(body) if body.startswith(
            b"{"
        ) else body  # a full server answers in plain words
    finally:
        connection.close()


def test_a_client_that_leaves_gives_its_place_to_the_next():
    with running(workers=1, waiting=0, limit=30.0) as port:
        assert post(port, {"first": 1})[0] == 200
        with pytest.raises(TimeoutError):
            post(port, {"sleep": 20}, timeout=0.5)
        started = time.monotonic()
        codes: list[int] = []
        while not codes or codes[-1] != 200:
            codes.append(post(port, {"next": len(codes)})[0])
            assert time.monotonic() - started < 15, codes  # not the 20 s of what nobody waits for
            time.sleep(0.2)
        assert set(codes) <= {200, 429}


def test_a_client_that_leaves_is_no_error_in_the_log(caplog):
    with caplog.at_level("WARNING", logger="uvicorn.error"), running(workers=1, limit=30.0) as port:
        post(port, {"first": 1})
        with pytest.raises(TimeoutError):
            post(port, {"sleep": 2.0}, timeout=0.3)
        assert post(port, {"second": 1})[0] in (200, 429)
    assert not caplog.records


def test_a_client_that_leaves_soon_costs_no_process():
    with running(workers=1, limit=30.0) as port:
        process = post(port, {"first": 1})[1]["process"]
        with pytest.raises(TimeoutError):
            post(port, {"sleep": 1.2}, timeout=0.3)
        assert post(port, {"second": 1})[1]["process"] == process


def test_a_hundred_questions_at_once_are_answered_or_refused_and_the_server_goes_on():
    with running(workers=2, waiting=10, limit=30.0) as port:
        post(port, {"first": 1})
        with ThreadPoolExecutor(100) as crowd:
            answers = list(crowd.map(lambda number: post(port, {"sleep": 0.1, "number": number}), range(100)))
        codes = [status for status, _ in answers]
        assert set(codes) == {200, 429}
        assert codes.count(200) >= 12  # those at work and in line
        assert all(answer["error"]["message"] for status, answer in answers if status == 429)
        assert post(port, {"behind": "them"})[0] == 200


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux bounds the memory of a process")
def test_a_question_that_takes_too_much_memory_is_refused_and_the_next_one_answered():
    worker = (
        sys.executable,
        "-P",
        "-m",
        "roofsim.web.worker",
        str(400 * 2**20),
    )  # far from its time limit when it is full
    axes = {"micro_batch_size": list(range(1, 3001)), "sequence_length": list(range(8, 1001))}
    with running(workers=1, limit=900.0, command=worker) as port:
        wanted = {"scenario": {"model": "gpt2-124m"}, "options": {"axes": axes}, "html": False}
        status, answer = post(port, wanted, verb="sweep", timeout=950)
        assert status in (422, 503)
        assert "memory" in answer["error"]["message"], answer
        assert post(port, {"scenario": {"model": "gpt2-124m"}}, timeout=200)[0] == 200


def test_half_a_request_stops_nobody():
    with running(workers=1, limit=5.0) as port:
        lazy = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
        for each in lazy[:10]:
            each.sendall(b"POST /api/run HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        assert post(port, {"first": 1})[0] == 200
        for each in lazy:
            each.close()


def test_half_sent_requests_keep_others_out_for_seconds_only(monkeypatch):
    """More of them than there are connections: they are closed, and questions are answered again."""
    monkeypatch.setattr(patience, "HEAD", 2.0)
    with running(workers=1, limit=5.0) as port:
        lazy = [socket.create_connection(("127.0.0.1", port)) for _ in range(130)]
        for each in lazy:
            each.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        until = time.monotonic() + 20.0
        while time.monotonic() < until and post(port, {"first": 1})[0] != 200:
            time.sleep(0.5)
        assert post(port, {"first": 1})[0] == 200
        lazy[0].settimeout(10.0)
        assert lazy[0].recv(1024)[:12] in (b"", b"HTTP/1.1 400")
        for each in lazy:
            each.close()


def test_what_browsers_unpack_is_sent_compressed():
    with running(workers=1) as port:
        request = urllib.request.Request(f"http://127.0.0.1:{port}/static/app.css", headers={"Accept-Encoding": "gzip"})
        with urllib.request.urlopen(request) as answer:
            packed = answer.read()
        assert answer.headers["content-encoding"] == "gzip"
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/static/app.css") as answer:
            plain = answer.read()
        assert gzip.decompress(packed) == plain
        assert len(packed) < 0.4 * len(plain)


def test_more_than_is_read_is_said_to_who_sends_it():
    """A browser that is cut off while it sends shows a broken connection, and never the reason."""
    with running(workers=1) as port:
        for extra in (1, 20 * 2**20):
            status, answer = post(port, {"text": "x" * (LARGEST_REQUEST + extra)}, verb="read")
            assert (status, answer["error"]["message"]) == (413, "the request has more than 4 MiB")
        assert post(port, {"first": 1})[0] == 200


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n",
        b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"POST /api/run HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /api/run HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 200_000 + b"\r\n\r\n",
    ],
)
def test_requests_of_a_broken_form_are_refused(raw):
    with running(workers=1) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
            connection.sendall(raw)
            status = connection.recv(4096).split(b"\r\n")[0]
        assert re.match(rb"HTTP/1.1 4\d\d ", status)
        assert post(port, {"behind": "it"})[0] == 200


# -- the command -----------------------------------------------------------------------------------------------------------


def start(*words, **environment):
    command = [sys.executable, "-m", "roofsim", "web", "--workers", "1", *words]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=os.environ | environment)


@contextmanager
def stopped(process):
    """Give a server, and end it."""
    with process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)


def address_of(process):
    lines = []
    for line in process.stderr:
        lines.append(line)
        shown = re.search(r"roofsim is at (http://\S+)", line)
        if shown:
            return shown[1], "".join(lines)
    raise AssertionError("".join(lines))


def page_at(address):
    host, port = sure(re.fullmatch(r"http://([^:/]+):(\d+)/.*", address)).groups()
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    connection.request("GET", "/")
    text = connection.getresponse().read().decode()
    connection.close()
    return int(port), sure(re.search(r'name="roofsim-token" content="([^"]+)"', text))[1]


def children_of(process):
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True, check=False
    )
    return [int(word) for word in listed.stdout.split()]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    with stopped(start("--port", "0", "--folder", str(folder))) as process:
        address, _ = address_of(process)
        yield (*page_at(address), folder, process)


def test_the_command_answers_and_says_what_is_wrong(served):
    port, token, _, _ = served
    status, answer = post(port, {"scenario": {"model": "gpt2-124m", "hardware": {"gpu": "h100"}}}, token=token)
    assert (status, answer["ok"]) == (200, True)
    status, wrong = post(port, {"scenario": {"model": "gpt2-124m", "hardware": {"gpu": "h1O0"}}}, token=token)
    assert (status, wrong["error"]["key"]) == (422, "hardware.gpu")
    assert post(port, {"scenario": {"model": "gpt2-124m"}}, token="x")[0] == 403


def test_what_is_no_json_or_too_deep_is_an_error_and_no_more(served):
    port, token, _, _ = served
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {TOKEN: token, "Content-Type": "application/json"}
    for raw in (
        b"{",
        b"[" * 10**5,
        b'{"a":' * 10**5,
        b"\xff\xfe",
        b'{"a": NaN}',
        b'{"a": ' + b"9" * 5000 + b"}",
        b"null",
        b"",
    ):
        connection.request("POST", "/api/run", raw, headers)
        answer = connection.getresponse()
        said = json.loads(answer.read())
        assert (answer.status, said["ok"]) == (422, False)
        assert "defect" not in said["error"]["message"], said["error"]["message"]
    connection.close()


def test_no_file_of_the_disk_is_read(served, tmp_path):
    port, token, _, _ = served
    secret = tmp_path / "secret.yaml"
    secret.write_text("model: gpt2-124m # 31337\n", encoding="utf-8")
    for name in ("/etc/passwd", "../../etc/passwd", str(secret), "gpt.yaml"):
        status, answer = post(port, {"scenario": {"model": name}}, token=token)
        assert status == 422
        assert "31337" not in json.dumps(answer)
        assert "root:" not in json.dumps(answer)


def test_a_report_is_saved_in_the_folder_and_nowhere_else(served):
    port, token, folder, _ = served
    question = {"verb": "run", "scenario": {"model": "gpt2-124m"}, "options": {}}
    status, saved = post(port, question | {"name": "../../evil"}, verb="save", token=token)
    assert (status, saved["name"]) == (200, "run-gpt2-124m-train-1-x-a100-sxm4-80gb-bf16-pytorch-eager.html")
    assert {path.name for path in folder.iterdir()} == {saved["name"], saved["name"].replace(".html", ".json")}
    again = post(port, question, verb="save", token=token)[1]["name"]
    assert again.endswith("-2.html")
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/api/saved")
    listed = json.loads(connection.getresponse().read())
    assert {row["name"] for row in listed["reports"]} == {saved["name"], again}
    assert listed["reports"][0]["scenario"] == {"model": "gpt2-124m"}
    connection.request("GET", f"/{saved['address']}")
    report = connection.getresponse()
    text = report.read().decode()
    assert text.startswith("<!DOCTYPE html>")
    assert report.headers["content-security-policy"].startswith("sandbox")
    (folder / "passwd.html").symlink_to("/etc/passwd")
    for name in ("passwd.html", "..%2f..%2fetc%2fpasswd", "%2e%2e", "x.html"):
        connection.request("GET", f"/saved/{name}")
        refused = connection.getresponse()
        assert (refused.status, b"root:" in refused.read()) == (404, False)
    for verb in ("catalog", "read", "rum", None, 3):
        assert post(port, {"verb": verb}, verb="save", token=token)[0] == 422
    connection.close()


def test_a_worker_that_is_killed_in_the_middle_is_replaced(served):
    port, token, _, process = served
    (worker,) = children_of(process)
    got = []
    body = {"scenario": {"model": "llama3-8b", "hardware": {"gpu": "h100", "gpus": 8}}, "options": {}}
    asking = threading.Thread(target=lambda: got.append(post(port, body, verb="advise", token=token)))
    asking.start()
    time.sleep(1.0)
    os.kill(worker, signal.SIGKILL)
    asking.join(60)
    assert got[0][0] == 503
    assert post(port, {"scenario": {"model": "gpt2-124m", "workload": {"micro_batch_size": 3}}}, token=token)[0] == 200


def test_a_port_that_is_taken_is_one_clear_message(served):
    port, _, _, _ = served
    second = start("--port", str(port))
    _, said = second.communicate(timeout=60)
    assert second.returncode == 2
    assert said.splitlines() == [
        f"roofsim: --port: cannot listen on 127.0.0.1, port {port}: Address already in use. --port 0 takes any port that is free."
    ]


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_cleanly(sent):
    process = start("--port", "0")
    address_of(process)
    time.sleep(0.5)
    workers = children_of(process)
    process.send_signal(sent)
    _, said = process.communicate(timeout=60)
    assert process.returncode in (0, -sent)
    assert "Traceback" not in said
    assert said.strip() in ("Stopped.", "")
    for worker in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)


def test_other_machines_are_let_in_by_an_explicit_word_and_a_token():
    refused = start("--host", "0.0.0.0", "--port", "0")
    _, said = refused.communicate(timeout=60)
    assert (refused.returncode, "--allow-others" in said) == (2, True)
    with stopped(start("--host", "0.0.0.0", "--port", "0", "--allow-others")) as process:
        address, said = address_of(process)
        assert "Other machines can reach this page" in said
        port, token = sure(re.search(r":(\d+)/\?token=(\S+)$", address)).groups()
        connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=60)
        for path in ("/", "/api/catalog", "/api/saved", "/?token=wrong"):
            connection.request("GET", path)
            answer = connection.getresponse()
            assert (answer.status, token in answer.read().decode()) == (403, False)
        connection.request("GET", f"/?token={token}")
        answer = connection.getresponse()
        answer.read()
        assert (answer.status, answer.headers["location"]) == (303, "/")
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        connection.request("GET", "/", headers={"Cookie": cookie.partition(";")[0]})
        assert token in connection.getresponse().read().decode()
        connection.request("GET", "/", headers={"Cookie": cookie.partition(";")[0], "Host": "evil.example"})
        assert connection.getresponse().status == 403
        connection.close()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--port", "70000"), "cannot listen"),
        (("--host", "no.such.host.invalid"), "other machines reach"),
        (("--limit", "soon"), "expected seconds above zero; got 'soon'"),
        (("--limit", "-1"), "expected seconds above zero"),
        (("--workers", "0"), "--workers"),
        (("--folder", "/no/such/folder"), "no such folder: /no/such/folder"),
        (("no-such-model-at-all.yaml",), "no such file"),
    ],
)
def test_wrong_words_are_refused_before_anything_listens(words, said):
    process = start(*words)
    _, got = process.communicate(timeout=60)
    assert process.returncode == 2
    assert said in got
    assert "Traceback" not in got
