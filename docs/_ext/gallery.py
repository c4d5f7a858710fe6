"""Order and look of the example gallery."""

from pathlib import Path

import matplotlib as mpl

#: Examples in the order of the gallery; others follow by name.
ORDER = (
    "two_moons",
    "denoised_review",
    "models",
    "noise_path",
    "text",
    "digits",
    "table",
    "dataframe",
    "few_labels",
    "class_shares",
    "domain_distance",
    "scorers",
    "stacking",
    "hospitals",
    "onnx",
)
#: Okabe and Ito's colours, which people with colour blindness tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7", "#888888")


class Order:
    """Sort key of sphinx-gallery."""

    def __init__(self, folder: str):
        self.folder = folder

    def __call__(self, name: str) -> tuple[int, str]:
        """Place of a file."""
        stem = Path(name).stem.removeprefix("plot_")
        return (ORDER.index(stem) if stem in ORDER else len(ORDER)), stem


def style() -> None:
    """Set the look of all figures."""
    mpl.rcParams.update(
        {
            "axes.prop_cycle": mpl.cycler(color=COLOURS),
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titlesize": "medium",
            "figure.dpi": 110,
            "font.size": 10,
            "legend.frameon": False,
        }
    )


def reset(gallery_conf: object, name: object) -> None:
    """Give every example the same look."""
    style()
