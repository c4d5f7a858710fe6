"""Data sets of domain adaptation: embedded, benchmarks from files, generated.

``load("sentiment-snippets")`` needs nothing; benchmarks are read from the folder that
``MARDA_DATA`` or ``path`` names; `make_shift` generates domains whose best accuracy is known, and
`make_case` situations of which it is known what differs.
"""

from marda.datasets.base import (
    ChecksumError,
    DataError,
    Dataset,
    Domain,
    DownloadError,
    FormatError,
    MissingData,
    Task,
)
from marda.datasets.generated import (
    ExplainedDataset,
    ShiftedDataset,
    changed_digits,
    make_case,
    make_shift,
)
from marda.datasets.registry import (
    COLLECTIONS,
    Collection,
    FileCheck,
    check,
    fetch,
    load,
    locate,
    named_task,
    names,
)
from marda.datasets.storage import Location, download
from marda.datasets.tasks import (
    draw_per_class,
    l2_rows,
    make_task,
    most_frequent,
    sampled_task,
    surf_rows,
    tfidf,
)

__all__ = [
    "COLLECTIONS",
    "ChecksumError",
    "Collection",
    "DataError",
    "Dataset",
    "Domain",
    "DownloadError",
    "ExplainedDataset",
    "FileCheck",
    "FormatError",
    "Location",
    "MissingData",
    "ShiftedDataset",
    "Task",
    "changed_digits",
    "check",
    "download",
    "draw_per_class",
    "fetch",
    "l2_rows",
    "load",
    "locate",
    "make_case",
    "make_shift",
    "make_task",
    "most_frequent",
    "named_task",
    "names",
    "sampled_task",
    "surf_rows",
    "tfidf",
]
