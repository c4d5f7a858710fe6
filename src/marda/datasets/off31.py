"""Office-31: 31 classes of office objects in three domains."""

from __future__ import annotations

from marda.datasets.images import SQUEEZENET, ImageFamily
from marda.datasets.readers import Layout

DOMAINS = ("amazon", "dslr", "webcam")


def _files(*patterns: str) -> dict[str, tuple[str, ...]]:
    """File names of the three domains; ``*`` stands for the domain."""
    return {name: tuple(p.replace("*", name) for p in patterns) for name in DOMAINS}


OFF31 = ImageFamily(
    name="off31",
    domains=DOMAINS,
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
