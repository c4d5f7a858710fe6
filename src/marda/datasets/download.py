"""Fetch a file over HTTP: resumed where it stopped, verified, and never half there."""

from __future__ import annotations

import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from marda.datasets.base import ChecksumError, DownloadError, sha256_of

Progress = Callable[[int, int | None], None]
BLOCK = 1 << 16


def download(
    url: str,
    path: str | os.PathLike[str],
    *,
    sha256: str | None = None,
    progress: Progress | None = None,
    timeout: float = 30.0,
) -> Path:
    """Download one file.

    Bytes go to ``<path>.part``; the final name appears only when all of them are there and the
    checksum is right. After a cut connection, calling again continues where it stopped, provided
    that the result can be trusted: the checksum is known, or the server confirms (``If-Range``)
    that the file has not changed.

    Parameters
    ----------
    url : str
        An ``http`` or ``https`` address.
    path : str or path-like
        The final file name; its folder is created.
    sha256 : str, optional
        Expected checksum. Without one, the length announced by the server is the only check.
    progress : callable, optional
        Called as ``progress(bytes_so_far, bytes_in_all_or_None)`` after every block.
    timeout : float, default=30
        Seconds without an answer before giving up.

    Returns
    -------
    Path
        The file. One that is already there is not fetched again.

    Raises
    ------
    DownloadError
        No network, a refusal of the server, a cut connection.
    ChecksumError
        The bytes are not the expected ones.
    """
    final = Path(path)
    if not url.startswith(("http://", "https://")):
        raise DownloadError(f"Cannot download {url}: only http and https addresses are supported.")
    if final.exists():
        if sha256 is not None and (got := sha256_of(final)) != sha256.lower():
            raise ChecksumError(
                f"{final} is there with sha256 {got[:16]}…, expected {sha256[:16]}…: delete it to "
                "download it again."
            )
        return final
    final.parent.mkdir(parents=True, exist_ok=True)
    part, tag = final.with_name(f"{final.name}.part"), final.with_name(f"{final.name}.part.tag")
    try:
        _transfer(url, part, tag, trusted=sha256 is not None, progress=progress, timeout=timeout)
    except urllib.error.HTTPError as error:
        error.close()
        raise DownloadError(
            f"Cannot download {url}: the server answered {error.code} {error.reason}."
        ) from error
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        if isinstance(error, DownloadError):
            raise
        reason = getattr(error, "reason", None) or error or type(error).__name__
        raise DownloadError(
            f"Cannot download {url} ({reason}): check the network and try again; what has "
            "arrived is kept."
        ) from error
    if sha256 is not None and (got := sha256_of(part)) != sha256.lower():
        part.unlink()
        tag.unlink(missing_ok=True)
        raise ChecksumError(
            f"{url} gave sha256 {got[:16]}…, expected {sha256[:16]}…: the bytes were thrown away; "
            "try again, and do not use the address if it happens twice."
        )
    os.replace(part, final)
    tag.unlink(missing_ok=True)
    return final


def _transfer(
    url: str, part: Path, tag: Path, *, trusted: bool, progress: Progress | None, timeout: float
) -> None:
    """Bring ``part`` to its full length."""
    validator = tag.read_text() if tag.exists() else ""
    done = part.stat().st_size if part.exists() and (trusted or validator) else 0
    headers = {"Accept-Encoding": "identity", "User-Agent": "marda"}
    if done:
        headers["Range"] = f"bytes={done}-"
        if validator:
            headers["If-Range"] = validator
    try:
        answer = urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=timeout
        )
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or not done:
            raise
        error.close()
        if error.headers.get("Content-Range", "") == f"bytes */{done}":
            return  # all bytes had arrived before the connection was cut
        part.unlink()  # longer than the file: not a beginning of it
        _transfer(url, part, tag, trusted=trusted, progress=progress, timeout=timeout)
        return
    with answer:
        resumed = answer.status == http.HTTPStatus.PARTIAL_CONTENT
        if resumed and not answer.headers.get("Content-Range", "").startswith(f"bytes {done}-"):
            raise DownloadError(f"Cannot resume {url}: the server sent another range; try again.")
        done = done if resumed else 0
        # A weak validator does not promise identical bytes, so it must not be used for ranges.
        strong = answer.headers.get("ETag", "")
        tag.write_text("" if strong.startswith("W/") else strong)
        _write(answer, part, done, url, progress)


def _write(answer: Any, part: Path, done: int, url: str, progress: Progress | None) -> None:
    """Append the body of an answer; the length must be the announced one."""
    length = answer.headers.get("Content-Length")
    total = None if length is None else done + int(length)
    with open(part, "ab" if done else "wb") as stream:
        while block := answer.read(BLOCK):
            stream.write(block)
            done += len(block)
            if progress is not None:
                progress(done, total)
    if total is not None and done != total:
        raise DownloadError(
            f"The connection to {url} was cut after {done} of {total} bytes: call again to resume."
        )
