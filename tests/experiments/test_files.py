import pytest

from marda.experiments.files import write_text


def test_writes_and_replaces(tmp_path):
    path = tmp_path / "new" / "a.md"
    write_text(path, "ü")
    assert write_text(path, "ß") == path
    assert path.read_text(encoding="utf-8") == "ß"
    assert list(path.parent.iterdir()) == [path]


def test_leaves_nothing_behind_when_it_fails(tmp_path):
    path = tmp_path / "a.md"
    path.mkdir()
    with pytest.raises(OSError):
        write_text(path, "text")
    assert list(tmp_path.iterdir()) == [path]
