"""`save` of the estimators; the work is done by the layers above."""

from __future__ import annotations

import os

__all__ = ["ModelFiles"]


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
