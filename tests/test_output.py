"""Archives are written below their folder, with every Python that is supported."""

import io
import tarfile

import pytest

from roofsim.output import extract

#: Python without filters, which every Python can play, and with them, where it has them (3.11.4).
FILTERS = [False, *([True] if hasattr(tarfile, "data_filter") else [])]


def archive_of(*names):
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = 2
            archive.addfile(member, io.BytesIO(b"ok"))
        link = tarfile.TarInfo("way-out")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc"
        archive.addfile(link)
    held.seek(0)
    return tarfile.open(fileobj=held)


@pytest.mark.parametrize("filters", FILTERS)
def test_nothing_is_written_beside_the_folder(tmp_path, monkeypatch, filters):
    if not filters:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    folder = tmp_path / "folder"
    folder.mkdir()
    with archive_of("a/b.yaml", "../beside.yaml") as archive:
        if filters:
            with pytest.raises(tarfile.OutsideDestinationError):
                extract(archive, folder)
        else:
            extract(archive, folder)
    assert (folder / "a/b.yaml").read_bytes() == b"ok"
    assert not (tmp_path / "beside.yaml").exists()
    assert not (folder / "way-out").is_symlink()
