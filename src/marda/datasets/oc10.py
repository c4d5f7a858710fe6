"""Office+Caltech10: ten classes of products in four domains, as three kinds of features."""

from __future__ import annotations

from marda.datasets.images import SQUEEZENET, ImageFamily
from marda.datasets.readers import Layout

DOMAINS = ("amazon", "caltech10", "dslr", "webcam")


def _mats(ending: str) -> dict[str, tuple[str, ...]]:
    """File names of the four domains; caltech10 is published under three spellings."""
    spellings: dict[str, tuple[str, ...]] = {name: (name,) for name in DOMAINS}
    spellings["caltech10"] = ("caltech10", "caltech", "Caltech10")
    return {
        domain: tuple(f"{spelling}_{ending}.mat" for spelling in names)
        for domain, names in spellings.items()
    }


OC10 = ImageFamily(
    name="oc10",
    domains=DOMAINS,
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
