"""What can go wrong with data, as one family of exceptions."""

from __future__ import annotations


class DataError(ValueError):
    """Anything wrong with a data set: base of the errors below."""


class MissingData(DataError, FileNotFoundError):
    """Files are not where they were looked for."""


class FormatError(DataError):
    """A file was found but does not hold what its name promises."""


class ChecksumError(DataError):
    """The bytes of a file are not the expected ones."""


class DownloadError(DataError, OSError):
    """A file could not be fetched."""
