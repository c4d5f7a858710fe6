"""`save` and `to_onnx` of the estimators; the work is done by the layers above."""

from __future__ import annotations

import os

__all__ = ["ModelFiles", "OnnxFiles"]


class ModelFiles:
    """Writes fitted models to files without pickle."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file, which `marda.load` reads.

        Parameters
        ----------
        path : path
            Replaced only once the file is complete.
        """
        from marda.persist import save

        save(self, path)


class OnnxFiles(ModelFiles):
    """Also writes the model as an ONNX graph."""

    def to_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write one ONNX graph: preprocessing (if any), denoising, classifier.

        Parameters
        ----------
        path : path
            Replaced only once the file is complete. The graph takes float64 rows "X" and gives
            "label", "scores" (as `decision_function`) and "probabilities".
        """
        from marda.onnx import export

        export(self, path)
