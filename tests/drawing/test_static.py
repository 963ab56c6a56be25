"""The style: everything can be read, in both modes, without colors too."""

import re
from pathlib import Path

import pytest

from mirada.drawing import page
from mirada.drawing.attention.weights import LIGHT
from mirada.drawing.page import static

STYLE = static("page.css")


def palette(dark: bool) -> dict[str, tuple[float, ...]]:
    """The colors of a mode, read from the style."""
    block = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)[1 if dark else 0]
    found: dict[str, tuple[float, ...]] = {}
    for name, value in re.findall(r"--(\w+): ([^;]+);", block):
        if value.startswith("#"):
            digits = value[1:] if len(value) == 7 else "".join(2 * digit for digit in value[1:])
            found[name] = tuple(int(digits[i : i + 2], 16) for i in (0, 2, 4))
        else:
            found[name] = tuple(map(float, value.split()))
    return found


def contrast(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    """The contrast ratio of WCAG 2."""

    def luminance(color: tuple[float, ...]) -> float:
        parts = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in color]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_everything_can_be_read(dark: bool) -> None:
    colors = palette(dark)
    for ground in ("card", "page"):
        for name in ("text", "soft", "link", "right", "wrong"):
            assert contrast(colors[name], colors[ground]) >= 4.5
    assert contrast(colors["text"], colors["mark"]) >= 4.5
    assert contrast(colors["text"], colors["prompt"]) >= 4.5
    for curve_color in ("c1", "c2", "c3", "c4", "c5", "c6"):
        assert contrast(colors[curve_color], colors["card"]) >= 3
    for heat in ("heat", "cold"):
        for share in (i / 100 for i in range(101)):
            mixed = tuple(
                share * hot + (1 - share) * cold for hot, cold in zip(colors[heat], colors["card"], strict=True)
            )
            figures = colors["bright"] if share > LIGHT else colors["faint"]
            assert contrast(mixed, figures) >= 4.5, (heat, share)


def test_every_view_has_its_words() -> None:
    folder = Path(page.__file__).parent / "viewer" / "static"
    views = re.findall(r"^import \{ (\w+)View \} from", (folder / "views.js").read_text(encoding="utf-8"), re.MULTILINE)
    words = (folder / "words.js").read_text(encoding="utf-8")
    assert len(views) >= 10
    assert [f"{kind}_{view}" for view in views for kind in ("view", "lead") if f"  {kind}_{view}: [" not in words] == []
