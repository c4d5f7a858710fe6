"""The downloader against a server on this machine; nothing here leaves it."""

import hashlib
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from marda import datasets
from marda.datasets import ChecksumError, DataError, DownloadError, amt, download

BODY = np.random.default_rng(0).bytes(300_000)
SUM = hashlib.sha256(BODY).hexdigest()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.seen += 1
        if self.server.status:
            self.send_error(self.server.status)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY[: self.server.cut_after])
        self.close_connection = True

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.cut_after, server.status, server.seen = None, 0, 0
    server.url = f"http://127.0.0.1:{server.server_port}/file.bin"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def left(folder):
    return sorted(file.name for file in folder.iterdir())


def test_whole_file(server, tmp_path):
    file = download(server.url, tmp_path / "new" / "file.bin", sha256=SUM.upper())
    assert file.read_bytes() == BODY
    assert left(file.parent) == ["file.bin"]


@pytest.mark.parametrize("sha256", [SUM, None])
def test_nothing_is_left_of_a_cut_connection(server, tmp_path, sha256):
    server.cut_after = 100_000
    with pytest.raises(DownloadError, match=r"100000 bytes read.*check the network and try again"):
        download(server.url, tmp_path / "file.bin", sha256=sha256)
    assert left(tmp_path) == []
    server.cut_after = None
    assert download(server.url, tmp_path / "file.bin", sha256=sha256).read_bytes() == BODY


def test_wrong_checksum_leaves_nothing(server, tmp_path):
    with pytest.raises(ChecksumError, match="thrown away"):
        download(server.url, tmp_path / "file.bin", sha256="0" * 64)
    assert left(tmp_path) == []


def test_file_that_is_there(server, tmp_path):
    file = tmp_path / "file.bin"
    file.write_bytes(BODY)
    download(server.url, file, sha256=SUM)
    download(server.url, file)
    assert not server.seen
    file.write_bytes(b"mine")
    with pytest.raises(ChecksumError, match="delete it"):
        download(server.url, file, sha256=SUM)
    assert file.read_bytes() == b"mine"


def test_refusal_of_the_server(server, tmp_path):
    server.status = 404
    with pytest.raises(DownloadError, match="the server answered 404 Not Found"):
        download(server.url, tmp_path / "file.bin")
    assert left(tmp_path) == []


def test_no_network(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(DownloadError, match=r"Connection refused.*check the network") as error:
        download(f"http://127.0.0.1:{port}/file.bin", tmp_path / "file.bin", timeout=5)
    assert isinstance(error.value, OSError)
    assert "\n" not in str(error.value)
    assert left(tmp_path) == []


def test_silent_server(tmp_path):
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/file.bin"
        with pytest.raises(DownloadError, match="timed out"):
            download(url, tmp_path / "file.bin", timeout=0.2)


def test_only_http(tmp_path):
    with pytest.raises(DownloadError, match="only http"):
        download("file:///etc/hosts", tmp_path / "file.bin")


def test_fetch(server, tmp_path, monkeypatch):
    monkeypatch.setattr(amt, "REMOTE", dict.fromkeys(amt.REMOTE, server.url))
    monkeypatch.setattr(amt, "KNOWN", dict.fromkeys(amt.KNOWN, SUM))
    monkeypatch.delenv("MARDA_DATA", raising=False)
    assert len(datasets.fetch("amt", tmp_path)) == 8
    assert "books_train.svmlight" in left(tmp_path)
    with pytest.raises(DataError, match="set MARDA_DATA or give a path"):
        datasets.fetch("amt")
    with pytest.raises(DataError, match=r"no stable public address.*oc10-squeezenet\.npz"):
        datasets.fetch("oc10", tmp_path)


def test_every_address_has_a_checksum():
    assert set(amt.REMOTE) == set(amt.KNOWN) - {"amt.npz"}
    assert all(url.startswith("https://") for url in amt.REMOTE.values())
