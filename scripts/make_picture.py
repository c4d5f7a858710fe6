"""Draw docs/images/adaptation.svg: two domains before and after adaptation, from a real fit.

python scripts/make_picture.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from marda import MDAClassifier, pack
from marda.datasets import make_shift

OUT = Path(__file__).parent.parent / "docs" / "images" / "adaptation.svg"
SIZE, PAD, GAP, TOP = 300, 16, 40, 64
COLOURS = ("#0b6e99", "#c2410c")


def plane(H: np.ndarray) -> np.ndarray:
    """Two principal directions of all rows, scaled to the unit square."""
    centred = H - H.mean(0)
    _, _, V = np.linalg.svd(centred, full_matrices=False)
    P = centred @ V[:2].T
    low, high = np.percentile(P, [1, 99], axis=0)
    return np.clip((P - low) / (high - low), -0.03, 1.03)


def panel(P: np.ndarray, y: np.ndarray, target: np.ndarray, x0: float) -> list[str]:
    """Circles are source rows, crosses are target rows; colours are classes."""
    marks = []
    for (a, b), label, is_target in zip(P, y, target, strict=True):
        x, v = x0 + PAD + a * (SIZE - 2 * PAD), TOP + PAD + (1 - b) * (SIZE - 2 * PAD)
        colour = COLOURS[int(label)]
        if is_target:
            marks.append(
                f'<path d="M{x - 3:.1f} {v - 3:.1f}l6 6m0-6l-6 6" stroke="{colour}" '
                'stroke-width="1.6" fill="none"/>'
            )
        else:
            marks.append(
                f'<circle cx="{x:.1f}" cy="{v:.1f}" r="3" fill="none" stroke="{colour}" '
                'stroke-width="1.4"/>'
            )
    return marks


def main() -> None:
    """Fit, project, draw."""
    data = make_shift(
        "mean", n_source=200, n_target=200, n_features=60, separation=5.0, shift=0.8, seed=0
    )
    source, target = (data.domains[name] for name in list(data.domains)[:2])
    X, y, domain = pack(source.X, source.y, target.X)
    truth = np.concatenate([source.y, target.y])
    adapted = MDAClassifier("S1M", noise=0.9, domain_loss_weight=100.0)
    adapted.fit(X, y, sample_domain=domain)
    plain = MDAClassifier("BL").fit(X, y, sample_domain=domain)
    before = 100 * plain.score(target.X, target.y)
    after = 100 * adapted.score(target.X, target.y)
    width, height = 2 * SIZE + GAP, TOP + SIZE + 34
    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="Helvetica, Arial, sans-serif" role="img" aria-label="Two domains before and '
        f'after adaptation: target accuracy {before:.0f} % and {after:.0f} %">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for x0, title, accuracy, H in (
        (0, "as they came", before, X),
        (SIZE + GAP, "after marda (S1M)", after, adapted.transform(X)),
    ):
        body.append(
            f'<text x="{x0 + 4}" y="24" font-size="17" fill="#111">{title}</text>'
            f'<text x="{x0 + 4}" y="46" font-size="14" fill="#444">'
            f"target accuracy {accuracy:.0f} %</text>"
            f'<rect x="{x0}" y="{TOP}" width="{SIZE}" height="{SIZE}" fill="none" stroke="#ccc"/>'
        )
        body += panel(plane(H), truth, domain < 0, x0)
    body.append(
        f'<text x="4" y="{height - 10}" font-size="13" fill="#444" xml:space="preserve">'
        "○ source, labelled     ✕ target, no label used     colours: the two classes</text></svg>"
    )
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text("\n".join(body) + "\n", encoding="utf-8")
    print(f"{OUT.name}: source-only {before:.1f} %, adapted {after:.1f} %")


if __name__ == "__main__":
    main()
