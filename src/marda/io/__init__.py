"""Tables in files: CSV and its relatives, Excel, JSON, Parquet, Arrow, svmlight, npz and mat."""

from marda.io.columns import read_labels
from marda.io.formats import FORMATS, detect_format, read_batches, read_table
from marda.io.preprocessing import Preprocessing, fit_preprocessing
from marda.io.table import InputError, Table, stack_sources
from marda.io.writing import PredictionWriter, replacing

__all__ = [
    "FORMATS",
    "InputError",
    "PredictionWriter",
    "Preprocessing",
    "Table",
    "detect_format",
    "fit_preprocessing",
    "read_batches",
    "read_labels",
    "read_table",
    "replacing",
    "stack_sources",
]
