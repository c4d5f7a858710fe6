"""adapt, predict, label, evaluate and compare as functions: what the commands call."""

from marda.adaptation.adapting import Adapted, adapt
from marda.adaptation.comparing import Compared, compare
from marda.adaptation.predicting import (
    Predicted,
    ToLabel,
    evaluate,
    label,
    load_model,
    predict,
    predict_on_spark,
)
from marda.adaptation.reading import Outputs, ReadOptions
from marda.adaptation.statistics import AdaptedFromStatistics, adapt_moments
from marda.adaptation.stream import Cluster, adapt_streaming

__all__ = [
    "Adapted",
    "AdaptedFromStatistics",
    "Cluster",
    "Compared",
    "Outputs",
    "Predicted",
    "ReadOptions",
    "ToLabel",
    "adapt",
    "adapt_moments",
    "adapt_streaming",
    "compare",
    "evaluate",
    "label",
    "load_model",
    "predict",
    "predict_on_spark",
]
