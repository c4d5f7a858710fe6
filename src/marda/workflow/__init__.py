"""adapt, predict and compare as functions: what the commands call."""

from marda.workflow.adapting import Adapted, adapt
from marda.workflow.comparing import Compared, compare
from marda.workflow.data import ReadOptions
from marda.workflow.outputs import Outputs
from marda.workflow.predicting import Predicted, load_model, predict
from marda.workflow.statistics import AdaptedFromStatistics, adapt_moments
from marda.workflow.streaming import Cluster, adapt_streaming

__all__ = [
    "Adapted",
    "AdaptedFromStatistics",
    "Cluster",
    "Compared",
    "Outputs",
    "Predicted",
    "ReadOptions",
    "adapt",
    "adapt_moments",
    "adapt_streaming",
    "compare",
    "load_model",
    "predict",
]
