from marda import cli


def test_list_names_every_data_set(capsys, monkeypatch):
    monkeypatch.delenv("MARDA_DATA", raising=False)
    assert cli.main(["data", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["data", "set", "there", "files"]
    found = {line.split()[0]: line.split()[1] for line in lines[1 : lines.index("")]}
    assert found["sentiment-snippets"] == "yes"
    assert found["penguins"] == "yes"
    assert any(line.startswith("penguins: CC0 1.0. Gorman") for line in lines)
    assert found["amt"] == "no"


def test_check_of_embedded_data(capsys):
    assert cli.main(["data", "check", "sentiment-snippets"]) == 0
    assert capsys.readouterr().out.startswith("ok ")


def test_check_finds_damage(capsys, tmp_path):
    (tmp_path / "amt.npz").write_bytes(b"not the file")
    assert cli.main(["data", "check", "--data", str(tmp_path)]) == 1
    assert "differs" in capsys.readouterr().out


def test_path(capsys, tmp_path):
    (tmp_path / "amt.npz").touch()
    assert cli.main(["data", "path", "amt", "--data", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"amt: {tmp_path / 'amt.npz'}\n"
