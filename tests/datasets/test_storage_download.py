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
        server = self.server
        server.seen.append(dict(self.headers))
        body = server.body
        if server.status:
            self.send_error(server.status)
            return
        asked = self.headers.get("Range") if server.ranges else None
        if asked and self.headers.get("If-Range", server.etag) != server.etag:
            asked = None
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        if asked and start >= len(body):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(body)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206 if asked else 200)
        if asked:
            at = start + server.range_offset
            self.send_header("Content-Range", f"bytes {at}-{len(body) - 1}/{len(body)}")
        if server.etag:
            self.send_header("ETag", server.etag)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        self.wfile.write(body[start:][: server.cut_after])
        self.close_connection = True

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.body, server.etag, server.ranges, server.range_offset = BODY, '"one"', True, 0
    server.cut_after, server.status, server.seen = None, 0, []
    server.url = f"http://127.0.0.1:{server.server_port}/file.bin"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def left(folder):
    return sorted(file.name for file in folder.iterdir())


def cut(server, file, **options):
    server.cut_after = 100_000
    with pytest.raises(DownloadError, match="cut after 100000 of 300000 bytes: call again"):
        download(server.url, file, **options)
    assert not file.exists()
    server.cut_after = None


def test_whole_file_with_progress(server, tmp_path):
    calls = []
    file = download(
        server.url, tmp_path / "new" / "file.bin", sha256=SUM.upper(),
        progress=lambda done, total: calls.append((done, total)),
    )  # fmt: skip
    assert file.read_bytes() == BODY
    assert left(file.parent) == ["file.bin"]
    assert calls[-1] == (len(BODY), len(BODY))
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert len(calls) > 2


@pytest.mark.parametrize("sha256", [SUM, None])
def test_resume_after_a_cut(server, tmp_path, sha256):
    file = tmp_path / "file.bin"
    cut(server, file, sha256=sha256)
    calls = []
    download(server.url, file, sha256=sha256, progress=lambda *call: calls.append(call))
    assert server.seen[-1]["Range"] == "bytes=100000-"
    assert server.seen[-1]["If-Range"] == '"one"'
    assert calls[0][0] > 100_000
    assert calls[-1] == (300_000, 300_000)
    assert file.read_bytes() == BODY
    assert left(tmp_path) == ["file.bin"]


def test_changed_file_starts_again(server, tmp_path):
    file = tmp_path / "file.bin"
    cut(server, file)
    server.body, server.etag = BODY[::-1], '"two"'
    assert download(server.url, file).read_bytes() == BODY[::-1]


@pytest.mark.parametrize("etag", ["", 'W/"weak"'])
def test_nothing_is_resumed_on_trust(server, tmp_path, etag):
    server.etag = etag
    file = tmp_path / "file.bin"
    cut(server, file)
    download(server.url, file)
    assert "Range" not in server.seen[-1]
    assert file.read_bytes() == BODY


def test_server_without_ranges(server, tmp_path):
    server.ranges = False
    file = tmp_path / "file.bin"
    cut(server, file, sha256=SUM)
    assert download(server.url, file, sha256=SUM).read_bytes() == BODY


def test_cut_before_the_last_step(server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(BODY)
    assert download(server.url, tmp_path / "file.bin", sha256=SUM).read_bytes() == BODY
    (tmp_path / "other.bin.part").write_bytes(BODY + b"more")
    assert download(server.url, tmp_path / "other.bin", sha256=SUM).read_bytes() == BODY
    assert left(tmp_path) == ["file.bin", "other.bin"]


def test_another_range_than_asked(server, tmp_path):
    file = tmp_path / "file.bin"
    cut(server, file, sha256=SUM)
    server.range_offset = 5
    with pytest.raises(DownloadError, match="another range"):
        download(server.url, file, sha256=SUM)
    assert not file.exists()


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
