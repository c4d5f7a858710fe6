"""Image benchmarks, Office+Caltech10 and Office-31: npz, .mat or CSV files of features."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from marda.datasets.base import Dataset, Domain, LazyDomains
from marda.datasets.storage import (
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

    def title(self, variant: str | None) -> str:
        """The name of a data set: the family's for the first variant that is there."""
        return self.name if variant is None else f"{self.name}-{variant}"

    def locate(self, variant: str | None, path: str | os.PathLike[str] | None) -> Location:
        """Look for the files of one variant, or of the first that is there."""
        layouts = [layout for layout in self.layouts if variant in (None, layout.variant)]
        return find(self.title(variant), self.name, layouts, path)

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


# Office+Caltech10: ten classes of products in four domains, as three kinds of features ------------

_OC10_DOMAINS = ("amazon", "caltech10", "dslr", "webcam")


def _mats(ending: str) -> dict[str, tuple[str, ...]]:
    """File names of the four domains; caltech10 is published under three spellings."""
    spellings: dict[str, tuple[str, ...]] = {name: (name,) for name in _OC10_DOMAINS}
    spellings["caltech10"] = ("caltech10", "caltech", "Caltech10")
    return {
        domain: tuple(f"{spelling}_{ending}.mat" for spelling in names)
        for domain, names in spellings.items()
    }


OC10 = ImageFamily(
    name="oc10",
    domains=_OC10_DOMAINS,
    classes=(
        "back_pack", "bike", "calculator", "headphones", "keyboard",
        "laptop_computer", "monitor", "mouse", "mug", "projector",
    ),
    layouts=(
        Layout("squeezenet", {"all": ("oc10-squeezenet.npz",)}),
        Layout("decaf6", {"all": ("oc10-decaf6.npz",)}),
        Layout("decaf6", _mats("decaf")),
        Layout("decaf6", {"all": ("oc10-decaf6-dw.npz",)}),
        Layout("surf", {"all": ("oc10-surf.npz",)}),
        Layout("surf", _mats("SURF_L10")),
    ),
    citation=(
        "Gong, Shi, Sha, Grauman: Geodesic flow kernel for unsupervised domain adaptation, "
        "CVPR 2012; Saenko, Kulis, Fritz, Darrell: Adapting visual category models to new "
        "domains, ECCV 2010."
    ),
    notes={
        "squeezenet": SQUEEZENET,
        "decaf6": "DeCAF6 features (Donahue et al. 2014): 4,096 activations of the sixth layer.",
        "surf": "SURF bag of 800 visual words, counts as published by Gong et al. 2012.",
    },
    known={
        "oc10-squeezenet.npz": "7d47225703511a96feaf078f02b2a56959f871a108b62ff030139a96e6dcaca7",
        "oc10-surf.npz": "f8df5ead0c4bb701cdd34a7ade915a4f469ec33e5c3fe17a380c53ba34d3f560",
        "oc10-decaf6-dw.npz": "e10614c89ad89afa382bc7d75c19a73b3118a88fb505a11996486848f1fce0b4",
    },
)  # fmt: skip


# Office-31: 31 classes of office objects in three domains -----------------------------------------

_OFF31_DOMAINS = ("amazon", "dslr", "webcam")


def _files(*patterns: str) -> dict[str, tuple[str, ...]]:
    """File names of the three domains; ``*`` stands for the domain."""
    return {name: tuple(p.replace("*", name) for p in patterns) for name in _OFF31_DOMAINS}


OFF31 = ImageFamily(
    name="off31",
    domains=_OFF31_DOMAINS,
    classes=(
        "back_pack", "bike", "bike_helmet", "bookcase", "bottle", "calculator", "desk_chair",
        "desk_lamp", "desktop_computer", "file_cabinet", "headphones", "keyboard",
        "laptop_computer", "letter_tray", "mobile_phone", "monitor", "mouse", "mug",
        "paper_notebook", "pen", "phone", "printer", "projector", "punchers", "ring_binder",
        "ruler", "scissors", "speaker", "stapler", "tape_dispenser", "trash_can",
    ),
    layouts=(
        Layout("squeezenet", {"all": ("off31-squeezenet.npz",)}),
        Layout("decaf6", {"all": ("off31-decaf6.npz",)}),
        Layout("decaf6", _files("*_fc6.mat", "*_decaf6.mat", "*.mat")),
        Layout("decaf7", _files("*_fc7.mat", "*_decaf7.mat")),
        Layout("csv", _files("*_*.csv", "*.csv")),
        # Last: Office+Caltech10 is published under these names too, maybe in the same folder.
        Layout("decaf6", _files("*_decaf.mat")),
    ),
    citation=(
        "Saenko, Kulis, Fritz, Darrell: Adapting visual category models to new domains, ECCV 2010."
    ),
    notes={
        "squeezenet": SQUEEZENET,
        "decaf6": "Features of the .mat files (as published: DeCAF6, Donahue et al. 2014).",
        "decaf7": "Features of the .mat files (as published: DeCAF7, Donahue et al. 2014).",
        "csv": "Features of the CSV files (as published: ResNet-50).",
    },
    known={
        "off31-squeezenet.npz": "d2687bd14f3a2b73b160595463671a17e78fca32a3f2b688662639bd400e4756",
    },
)  # fmt: skip
