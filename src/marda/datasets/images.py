"""What the image benchmarks share: npz, .mat or CSV files of features → `Dataset`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from marda.datasets.base import Dataset, Domain, LazyDomains
from marda.datasets.readers import (
    Layout,
    Location,
    csv_domain,
    find,
    mat_domain,
    npz_domain,
    open_npz,
)

LICENCE = (
    "No licence is stated by the publishers; the images are used in research under the terms of "
    "their sources. marda does not redistribute them."
)
SQUEEZENET = "SqueezeNet features (3×3 max-pool of the last fire module), not DeCAF6."


@dataclass(frozen=True)
class ImageFamily:
    """A benchmark of images: its domains, classes, and the spellings of its files.

    The first layout that is complete serves the bare name; ``notes`` has one text per variant.
    """

    name: str
    domains: tuple[str, ...]
    classes: tuple[str, ...]
    layouts: tuple[Layout, ...]
    citation: str
    notes: Mapping[str, str]
    known: Mapping[str, str]

    @property
    def variants(self) -> tuple[str, ...]:
        """The kinds of features, in the order of preference of the bare name."""
        return tuple(self.notes)

    def locate(self, variant: str | None, path: str | os.PathLike[str] | None) -> Location:
        """Look for the files of one variant, or of the first that is there."""
        layouts = [layout for layout in self.layouts if variant in (None, layout.variant)]
        name = self.name if variant is None else f"{self.name}-{variant}"
        return find(name, self.name, layouts, path)

    def load(self, variant: str | None, path: str | os.PathLike[str] | None) -> Dataset:
        """Wrap the files found; only the names of the domains are read now."""
        location = self.locate(variant, path)
        if location.layout is None:
            raise location.missing()
        loaders = self._loaders(location.files)
        if not loaders:
            raise location.missing(f"every domain of {location.name}")
        found = location.layout.variant
        absent = [name for name in self.domains if name not in loaders]
        return Dataset(
            name=f"{self.name}-{found}",
            domains=LazyDomains(loaders),
            names=self.classes,
            licence=LICENCE,
            citation=self.citation,
            notes=self.notes[found] + (f" Without {', '.join(absent)}." if absent else ""),
            kind="surf" if found == "surf" else "image",
            files=tuple(location.files.values()),
            known=self.known,
        )

    def _loaders(self, files: Mapping[str, Path]) -> dict[str, Callable[[], Domain]]:
        """Return one reader per domain; partials, so that a `Dataset` can go to another process."""
        n_classes = len(self.classes)
        if "all" in files:
            with open_npz(files["all"]) as archive:
                held = [name for name in self.domains if f"{name}_X" in archive.files]
            return {name: partial(npz_domain, files["all"], name, n_classes) for name in held}
        return {
            name: partial(csv_domain, file, self.classes)
            if file.suffix == ".csv"
            else partial(mat_domain, file, n_classes)
            for name, file in files.items()
        }
