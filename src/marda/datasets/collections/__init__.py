"""Collections of tasks, each with rows and features of its own."""

from marda.datasets.collections.generated import CASES, Case, ExplainedDataset, make_case
from marda.datasets.collections.named_tasks import COLLECTIONS, Collection, named_task

__all__ = [
    "CASES",
    "COLLECTIONS",
    "Case",
    "Collection",
    "ExplainedDataset",
    "make_case",
    "named_task",
]
