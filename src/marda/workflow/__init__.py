"""adapt, predict and compare as functions: what the commands call."""

from marda.workflow.adapting import Adapted, adapt
from marda.workflow.comparing import Compared, compare
from marda.workflow.data import ReadOptions
from marda.workflow.predicting import Predicted, load_model, predict

__all__ = [
    "Adapted",
    "Compared",
    "Predicted",
    "ReadOptions",
    "adapt",
    "compare",
    "load_model",
    "predict",
]
