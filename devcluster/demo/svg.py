"""The few shapes that our pictures are made of. Pure: values in, text out."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

INK, FAINT, PAPER, STRIPE = "#22303c", "#c5ced6", "#ffffff", "#f4f6f8"


def picture(width: int, height: int, title: str, description: str, shapes: Iterable[str]) -> str:
    """Put shapes on a sheet of paper. A screen reader reads the title and the description."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="Helvetica, Arial, sans-serif" font-size="14" fill="{INK}">\n'
        f"<title>{escape(title)}</title>\n<desc>{escape(description)}</desc>"
    )
    return "\n".join([head, rectangle(0, 0, width, height, PAPER), *shapes, "</svg>\n"])


def rectangle(x: float, y: float, width: float, height: float, colour: str) -> str:
    """Draw a filled rectangle."""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"/>'


def line(x: float, y: float, to_x: float, to_y: float, colour: str = INK) -> str:
    """Draw a line."""
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" stroke="{colour}"/>'


def text(x: float, y: float, words: str, anchor: str = "start", weight: str = "normal") -> str:
    """Write words."""
    style = f'text-anchor="{anchor}" font-weight="{weight}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(words)}</text>'
