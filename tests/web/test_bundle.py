"""The static page as built: what is in it, that it is the same every time, that its byte code runs, what it fetches elsewhere."""

from __future__ import annotations

import gzip
import io
import json
import re
import subprocess
import sys
import tarfile
import zipfile

import pytest

from roofsim.errors import RoofsimError
from roofsim.output import extract
from roofsim.spec import catalog
from roofsim.web.bundle.__main__ import main
from roofsim.web.bundle.archive import archived, archived_wheel, compiler_of
from roofsim.web.bundle.pins import core_in, integrity, pins, wheels_in
from roofsim.web.bundle.site import laid_out, write_site

#: Start with it answers as the browser does: nothing but the archive and the compiled packages is there.
RUNS = """
import sys
sys.path.insert(0, sys.argv[1])
import json
from roofsim.web.in_browser import answer
import roofsim.spec.reading.source as source
request = {"scenario": {"model": "gpt2-124m", "hardware": {"gpu": "a100"}}}
said = json.loads(answer("run", json.dumps(request)))
import yaml, jinja2, rich
homes = [module.__spec__.origin for module in (sys.modules["roofsim"], yaml, jinja2, rich, source)]
read = []
parse, source.parse_yaml = source.parse_yaml, lambda text, name: read.append(name) or parse(text, name)
other = json.loads(answer("run", json.dumps(request).replace("a100", "h100")))
print(json.dumps([said["data"]["step_time"], len(said["html"]), homes, other["ok"], read]))
"""


@pytest.fixture(scope="module")
def archive():
    return archived(sys.executable)


@pytest.fixture(scope="module")
def laid():
    return laid_out(core=None, wheels={}, interpreter=sys.executable)


def names_in(archive):
    with tarfile.open(fileobj=io.BytesIO(archive)) as held:
        return held.getnames()


def test_the_archive_holds_what_answers_take(archive):
    names = names_in(archive)
    code = {name.partition("/")[0] for name in names if name.endswith(".pyc")}
    assert code == {"roofsim", "jinja2", "markupsafe", "yaml", "rich", "simpy"}
    assert not [name for name in names if name.endswith((".py", ".so"))]
    for inside in ("roofsim/api.pyc", "roofsim/report/html/templates/page.css", "roofsim/calibrate/published.csv"):
        assert inside in names
    entries = [
        f"roofsim/_catalog/{path.relative_to(catalog.root()).as_posix()}" for path in catalog.names("gpu").values()
    ]
    assert set(entries) <= set(names)
    assert any(
        re.fullmatch(r"rich-[^/]*/.*LICENSE.*", name, re.IGNORECASE) for name in names
    )  # it is passed on with them


def test_the_archive_is_the_same_every_time_and_names_no_folder_of_this_machine(archive):
    assert archived.__wrapped__(sys.executable) == archive
    plain = gzip.decompress(archive)
    for folder in (str(catalog.root()), sys.prefix):
        assert folder.encode() not in plain


def test_the_archive_and_the_page_are_small(archive, laid):
    assert len(archive) < 6e6  # half of it the catalog
    page = sum(
        len(content) for name, content in laid.files.items() if name == "index.html" or name.startswith("static/")
    )
    assert page < 300e3


def test_byte_code_answers_as_the_sources_do(archive, tmp_path):
    import roofsim

    with tarfile.open(fileobj=io.BytesIO(archive)) as held:
        extract(held, tmp_path)
    words = [sys.executable, "-c", RUNS, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path, env={})
    seconds, html, homes, is_other, read = json.loads(done.stdout)
    assert seconds == roofsim.run({"model": "gpt2-124m", "hardware": {"gpu": "a100"}}).step_time
    assert html > 10_000
    assert all(home.startswith(str(tmp_path)) and home.endswith(".pyc") for home in homes)
    assert is_other
    assert not [name for name in read if name.endswith(".yaml")]  # the catalogs were read when the archive was made


def test_without_a_python_of_that_version_sources_are_packed():
    assert compiler_of("2.1") is None
    names = names_in(archived(None))
    assert "roofsim/api.py" in names
    assert "roofsim/api.pyc" not in names


def test_a_wheel_is_compiled_with_its_documentation(tmp_path):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as wheel:
        wheel.writestr("pack/__init__.py", '"""Said."""\nfrom pack.one import ONE\n')
        wheel.writestr("pack/one.py", "ONE = 1\n")
        wheel.writestr("pack/one.pyi", "ONE: int\n")
        wheel.writestr("pack/tests/test_one.py", "raise SystemExit\n")
        wheel.writestr("pack-1.0.dist-info/METADATA", "Name: pack\n")
    archive = archived_wheel(packed.getvalue(), sys.executable)
    assert names_in(archive) == ["pack-1.0.dist-info/METADATA", "pack/__init__.pyc", "pack/one.pyc"]
    with tarfile.open(fileobj=io.BytesIO(archive)) as held:
        extract(held, tmp_path)
    code = "import pack; print(pack.__doc__, pack.ONE)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == "Said. 1\n"


def test_the_page_says_that_python_runs_in_it(laid):
    page = laid.files["index.html"].decode()
    assert '<meta name="roofsim-back" content="static">' in page
    assert {"static/worker.js", "static/pyodide.js", "static/app.js", "static/page.css"} <= set(laid.files)
    catalogs = json.loads(next(content for name, content in laid.files.items() if name.startswith("catalog-")))
    assert {row["name"] for row in catalogs["gpus"]} == set(catalog.names("gpu"))
    assert (
        '<a href="../">'
        in laid_out(core=None, wheels={}, interpreter=sys.executable, docs="../").files["index.html"].decode()
    )


def test_what_is_fetched_elsewhere_is_pinned(laid):
    manifest = json.loads(laid.files["bundle.json"])
    elsewhere = [*manifest["pyodide"]["fetched"], *manifest["wheels"]]
    assert {each["url"] for each in elsewhere} == set(laid.elsewhere)
    for each in elsewhere:
        assert each["pinned"]
        assert each["url"].startswith("https://")
        assert re.fullmatch(r"sha256-[A-Za-z0-9+/]{43}=", each["integrity"])
    assert pins().version in manifest["pyodide"]["index"]
    assert integrity(pins().wheels[0].sha256) == manifest["wheels"][0]["integrity"]


def test_another_address_of_pyodide_has_to_have_the_same_files(laid):
    other = laid_out(core=None, wheels={}, url="https://mirror.example/py", interpreter=sys.executable)
    manifest, before = (json.loads(each.files["bundle.json"]) for each in (other, laid))
    assert manifest["pyodide"]["index"] == "https://mirror.example/py/"
    assert [each["integrity"] for each in manifest["wheels"]] == [each["integrity"] for each in before["wheels"]]
    assert manifest["wheels"][0]["url"].startswith("https://mirror.example/py/numpy-")


def test_the_cache_keeps_all_of_a_version_and_is_named_by_it(laid, tmp_path):
    first, _, rest = laid.files["service.js"].decode().partition("\n")
    bundle = json.loads(first.removeprefix("const BUNDLE = ").removesuffix(";"))
    assert "caches" in rest
    own = {file["url"] for file in bundle["files"] if "integrity" not in file}
    assert own == {"./" if name == "index.html" else name for name in laid.files if name != "service.js"}
    needed = {file["url"] for file in bundle["files"] if "integrity" in file and not file.get("optional")}
    assert needed == {
        *(pins().url + name for name in pins().files),
        *(w.url for w in pins().wheels if w.when == "start"),
    }
    assert bundle["version"] == laid.version
    (tmp_path / "python_stdlib.zip").write_bytes(b"")
    assert laid_out(core={"pyodide.mjs": b""}, wheels={}, interpreter=sys.executable).version != laid.version


def test_only_what_is_pinned_is_served(tmp_path):
    (tmp_path / pins().wheels[0].file).write_bytes(b"something else")
    assert wheels_in(tmp_path) == {}
    assert wheels_in(None) == {}
    with pytest.raises(RoofsimError, match=r"pyodide\.mjs is missing; expected that of Pyodide"):
        core_in(tmp_path)
    (tmp_path / "pyodide.mjs").write_bytes(b"something else")
    with pytest.raises(RoofsimError, match=r"pyodide\.mjs is not that of Pyodide"):
        core_in(tmp_path)


def test_it_is_built_by_a_command(tmp_path, capsys, laid):
    assert main([str(tmp_path / "app"), "--interpreter", sys.executable]) == 0
    said = capsys.readouterr().out
    assert "Visitors fetch 10 files from cdn.jsdelivr.net and files.pythonhosted.org, checked by their hashes." in said
    assert (tmp_path / "app" / "index.html").is_file()
    (tmp_path / "taken").write_text("")
    assert main([str(tmp_path / "taken"), "--interpreter", sys.executable]) == 2
    assert "error: " in capsys.readouterr().err
    with pytest.raises(RoofsimError):
        write_site(laid, tmp_path / "taken" / "below")
