"""The server of the page: what passes its guards and what does not, limits, and processes that hang or die."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from roofsim.web.guards import HEADERS, TOKEN, PageGuard
from roofsim.web.server import LARGEST_REQUEST, ServedPage, application, static_files

TOY = (sys.executable, str(Path(__file__).with_name("toy_worker.py")))
SECRET = "the-token-of-this-server"
GOOD = {
    TOKEN: SECRET,
    "content-type": "application/json",
    "origin": "http://127.0.0.1:8765",
    "sec-fetch-site": "same-origin",
}
BASE = "http://127.0.0.1:8765"


@pytest.fixture(scope="module")
def client():
    serving = ServedPage(guard=PageGuard(token=SECRET), workers=2, limit=2.0, waiting=2, command=TOY)
    with TestClient(application(serving), base_url=BASE) as client:
        yield client


def ask(client, verb="run", body=None, **headers):
    given = {
        key: value
        for key, value in (GOOD | {name.replace("_", "-"): one for name, one in headers.items()}).items()
        if value
    }
    return client.post(f"/api/{verb}", content=json.dumps(body or {}), headers=given)


# -- what passes ---------------------------------------------------------------------------------------------------------


def test_the_page_brings_its_token_and_says_which_back_it_has(client):
    page = client.get("/")
    assert page.status_code == 200
    assert f'<meta name="roofsim-token" content="{SECRET}">' in page.text
    assert '<meta name="roofsim-back" content="server">' in page.text
    assert page.headers["cache-control"] == "no-store"


def test_every_file_of_the_page_is_served_with_its_type(client):
    types = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}
    for name, file in static_files().items():
        answer = client.get(f"/static/{name}")
        assert answer.content == file.content
        assert answer.headers["content-type"].startswith(types[Path(name).suffix]), name
        again = client.get(f"/static/{name}", headers={"if-none-match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


def test_a_question_of_the_page_is_answered(client):
    answer = ask(client, "compare", {"passes": 1})
    assert (answer.status_code, answer.json()["verb"]) == (200, "compare")
    assert answer.headers["content-type"] == "application/json"
    assert ask(client, "run", {"no": 1}).status_code == 422
    assert client.get("/api/catalog").json()["verb"] == "catalog"


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:8765", "LOCALHOST", "[::1]:8765", "localhost:9000"])
def test_names_of_this_machine_pass(client, host):
    assert client.get("/", headers={"host": host}).status_code == 200
    assert ask(client, body={"host": host}, host=host, origin=f"http://{host}").status_code == 200


def test_every_answer_says_what_a_browser_must_not_do(client):
    answers = [
        client.get("/"),
        client.get("/static/index.html"),
        client.get("/none"),
        ask(client),
        client.get("/", headers={"host": "evil.example"}),
    ]
    for answer in answers:
        for name, value in HEADERS.items():
            assert name == "cache-control" or answer.headers[name] == value
    policy = HEADERS["content-security-policy"]
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert "server" not in answers[0].headers


# -- what does not -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8765",
        "localhost.evil.example",
        "127.0.0.1.nip.io",
        "evil@localhost",
        "192.168.1.5:8765",
        "localhost/x",
        "",
        "0.0.0.0:8765",
        "[::1",
        "localhost:x",
    ],
)
def test_a_name_that_somebody_pointed_here_is_refused(client, host):
    assert client.get("/", headers={"host": host}).status_code == 403
    assert ask(client, host=host, origin=f"http://{host}").status_code == 403
    assert SECRET not in client.get("/", headers={"host": host}).text


@pytest.mark.parametrize(
    "wrong",
    [
        {TOKEN: ""},
        {TOKEN: "guessed"},
        {TOKEN: SECRET[:-1]},
        {TOKEN: "ü"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "multipart/form-data"},
        {"content-type": ""},
    ],
    ids=str,
)
def test_a_page_of_another_origin_cannot_ask(client, wrong):
    given = {key: value.encode() for key, value in (GOOD | wrong).items() if value}
    answer = client.post("/api/run", content=b"{}", headers=given)
    assert answer.status_code == 403
    assert answer.json()["ok"] is False


def test_two_tokens_or_hosts_are_none(client):
    twice = [*((name, value) for name, value in GOOD.items()), (TOKEN, SECRET)]
    assert client.post("/api/run", content=b"{}", headers=twice).status_code == 403


def test_another_origin_cannot_load_the_files_or_the_catalog(client):
    for path in ("/static/index.html", "/api/catalog"):
        assert (
            client.get(path, headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}).status_code == 403
        )
        assert client.get(path, headers={"sec-fetch-site": "same-origin"}).status_code == 200
    # A link to the page may be followed from anywhere; what it shows cannot be read from there.
    linked = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert client.get("/", headers=linked).status_code == 200
    assert client.get("/", headers=linked | {"sec-fetch-dest": "iframe"}).headers["x-frame-options"] == "DENY"
    assert "access-control-allow-origin" not in client.get("/").headers


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "HEAD", "TRACE"])
def test_questions_are_posted(client, method):
    assert client.request(method, "/api/run", headers=GOOD).status_code == 405


def test_a_preflight_allows_nothing(client):
    asked = {
        "origin": "http://evil.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": TOKEN,
    }
    answer = client.options("/api/run", headers=asked)
    assert answer.status_code == 403
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    "path",
    [
        "/static/../server.py",
        "/static/..%2fserver.py",
        "/static/%2e%2e/server.py",
        "/static//etc/passwd",
        "/static/%2fetc%2fpasswd",
        "/static/..%5cserver.py",
        "/static/",
        "/static/index.html%00.js",
        "/etc/passwd",
        "/api/../../etc/passwd",
    ],
)
def test_no_path_leads_out_of_the_files_of_the_page(client, path):
    answer = client.get(path)
    assert answer.status_code in (404, 405)
    assert "root:" not in answer.text
    assert "def " not in answer.text


def test_a_link_among_the_files_is_none_of_them(tmp_path, monkeypatch):
    import roofsim.web.server

    (tmp_path / "static").mkdir()
    (tmp_path / "static" / "index.html").write_text("<p>", encoding="utf-8")
    (tmp_path / "static" / "passwd.css").symlink_to("/etc/passwd")
    (tmp_path / "static" / "etc").symlink_to("/etc", target_is_directory=True)
    monkeypatch.setattr(
        roofsim.web.server, "files", lambda name: tmp_path if name == "roofsim.web" else Path("roofsim/report/html")
    )
    assert set(static_files()) == {"page.css", "page.js", "index.html"}


def test_unknown_verbs_are_no_answers(client):
    for verb in ("rum", "__import__", "run/x", "run%00"):
        assert ask(client, verb).status_code == 404


# -- limits --------------------------------------------------------------------------------------------------------------


def test_a_paste_of_a_megabyte_passes_and_more_than_the_limit_does_not(client):
    passed = ask(client, "read", {"text": "x" * 10**6})
    assert (passed.status_code, passed.json()["size"] > 10**6) == (200, True)
    assert ask(client, "read", {"text": "x" * LARGEST_REQUEST}).status_code == 413
    parts = (b"x" * 2**16 for _ in range(LARGEST_REQUEST // 2**16 + 2))  # without a stated length
    assert client.post("/api/read", content=parts, headers=GOOD).status_code == 413


def test_an_answer_that_takes_too_long_ends_and_the_next_is_given(client):
    started = time.monotonic()
    late = ask(client, body={"sleep": 30})
    assert (late.status_code, time.monotonic() - started < 10) == (504, True)
    assert "longer than 2 s" in late.json()["error"]["message"]
    assert ask(client, body={"behind": "late"}).status_code == 200


def test_a_process_that_dies_is_replaced(client):
    died = ask(client, body={"do": "die"})
    assert died.status_code == 503
    assert "ended" in died.json()["error"]["message"]
    processes = {ask(client, body={"behind": "death", "n": n}).json()["process"] for n in range(4)}
    assert processes


def test_two_clients_are_answered_at_once(client):
    spans = []

    def one(number):
        started = time.monotonic()
        assert ask(client, body={"sleep": 1.0, "client": number}).status_code == 200
        spans.append((started, time.monotonic()))

    clients = [threading.Thread(target=one, args=(number,)) for number in range(2)]
    for each in clients:
        each.start()
    for each in clients:
        each.join()
    (first, first_end), (second, second_end) = spans
    assert max(first, second) < min(first_end, second_end)
    assert max(first_end, second_end) - min(first, second) < 1.9


def test_more_questions_than_there_is_room_for_are_refused(client):
    codes = []

    def one(number):
        codes.append(ask(client, body={"sleep": 0.8, "crowd": number}).status_code)

    clients = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for each in clients:
        each.start()
    for each in clients:
        each.join()
    assert sorted(codes) == [200] * 4 + [429] * 4
    assert ask(client, body={"behind": "crowd"}).status_code == 200


def test_the_same_question_is_worked_out_once(client):
    first, again = (ask(client, body={"same": 1}) for _ in range(2))
    assert first.content == again.content
    assert ask(client, body={"same": 2}).content != first.content
    other = ask(client, "fit", {"same": 1})
    assert other.json()["verb"] == "fit"
