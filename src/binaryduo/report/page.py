"""One HTML file that needs nothing else: style, script, Plotly and every picture are inside it.

Plotly's cartesian bundle (MIT, its licence beside it in assets/) is shipped compressed with the package; a page without
interactive pictures does not get it.
"""

import gzip
import html
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from binaryduo.paper.experiment import VERDICTS

ASSETS = Path(__file__).parent / "assets"
PLOTLY = ASSETS / "plotly-cartesian-4.1.1.min.js.gz"

# Nothing may be loaded from anywhere: the browser itself holds the page to that.
POLICY = "default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def escape(text: object) -> str:
    """Text as HTML shows it.

    >>> escape("a < b & c")
    'a &lt; b &amp; c'
    """
    return html.escape(str(text))


@dataclass
class Page:
    """Collects sections; `render` gives the file's text."""

    title: str
    subtitle: str = ""
    parts: list[str] = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)
    figures: list[dict[str, Any]] = field(default_factory=list)

    def section(self, title: str, key: str, level: int = 2) -> None:
        """Begin a section; those of level 2 are in the page's contents."""
        if level == 2:
            self.links.append((key, title))
        self.parts.append(f'<h{level} id="{escape(key)}">{escape(title)}</h{level}>')

    def text(self, content: str, kind: str = "") -> None:
        """A paragraph of plain text; `kind` is a class of the style sheet (note, problem)."""
        role = ' role="status"' if kind == "problem" else ""
        self.parts.append(
            f'<p class="{kind}"{role}>{escape(content)}</p>' if kind else f"<p>{escape(content)}</p>"
        )

    def table(self, head: Sequence[str], rows: Sequence[Sequence[object]], caption: str) -> None:
        """A table that can be sorted by every column; numbers are sorted as numbers."""
        cells = "".join(
            f'<th scope="col" aria-sort="none"{_side([row[column] for row in rows])}>'
            f'<button type="button">{escape(name)}</button></th>'
            for column, name in enumerate(head)
        )
        body = "".join("<tr>" + "".join(_cell(value) for value in row) + "</tr>" for row in rows)
        self.parts.append(
            f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table class="sortable">'
            f"<caption>{escape(caption)}</caption><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table></div>"
        )

    def figure(self, figure: dict[str, Any], caption: str, log: bool = False) -> None:
        """An interactive picture with its numbers as a table below; `log` adds a button for a logarithmic axis."""
        number = len(self.figures)
        self.figures.append(figure)
        button = (
            f'<button type="button" class="log" aria-pressed="false" data-for="plot{number}">logarithmic axis</button>'
            if log
            else ""
        )
        self.parts.append(
            f'<figure><div class="plot" id="plot{number}" role="img" aria-label="{escape(caption)}"></div>'
            f"<figcaption>{escape(caption)} {button}</figcaption>{_numbers(figure)}</figure>"
        )

    def raw(self, content: str) -> None:
        """HTML that is made here, never a user's text."""
        self.parts.append(content)

    def render(self) -> str:
        """The whole file."""
        links = "".join(f'<li><a href="#{escape(key)}">{escape(title)}</a></li>' for key, title in self.links)
        script, style = ((ASSETS / name).read_text() for name in ("report.js", "report.css"))
        plotly = ""
        if self.figures:
            licence = (ASSETS / "PLOTLY_LICENSE").read_text().replace("--", "- -")
            source = gzip.decompress(PLOTLY.read_bytes()).decode().replace("</script", "<\\/script")
            plotly = f"<!-- Plotly.js:\n{licence}-->\n<script>{source}</script>\n"
        data = json.dumps(self.figures, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
        return (
            "<!doctype html>\n"
            '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(self.title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
            '<a class="skip" href="#content">Skip to the content</a>\n'
            f"<header><div><h1>{escape(self.title)}</h1><p>{escape(self.subtitle)}</p></div>"
            '<button type="button" id="theme" aria-pressed="false">Dark</button></header>\n'
            f'<nav aria-label="Contents"><ul>{links}</ul></nav>\n'
            f'<main id="content">\n{chr(10).join(self.parts)}\n</main>\n'
            f'<script type="application/json" id="figures">{data}</script>\n'
            f"{plotly}<script>{script}</script>\n</body>\n</html>\n"
        )


def _side(values: Sequence[object]) -> str:
    """The head of a column of numbers stands above them, to the right."""
    present = [value for value in values if value is not None]
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in present)
    return ' class="number"' if present and numbers else ""


def _cell(value: object) -> str:
    """Numbers to the right, with their exact value to sort by."""
    if isinstance(value, bool) or value is None:
        return f"<td>{'' if value is None else 'yes' if value else 'no'}</td>"
    if isinstance(value, int | float):
        shown = (
            f"{value:,}"
            if isinstance(value, int)
            else f"{value:,.4g}"
            if abs(value) < 100
            else f"{value:,.1f}"
        )
        return f'<td class="number" data-value="{value!r}">{shown}</td>'
    text = str(value)
    if text in (*VERDICTS, "not yet"):
        return f'<td><span class="verdict {text.replace(" ", "-")}">{text}</span></td>'
    return f"<td>{escape(text)}</td>"


def _numbers(figure: dict[str, Any]) -> str:
    """The points of a picture as a table, for whoever cannot see or hover it."""
    rows = []
    for trace in figure["data"]:
        if "z" in trace:
            continue
        for x, y in zip(trace["x"], trace["y"], strict=True):
            rows.append(f"<tr><td>{escape(trace.get('name', ''))}</td>{_cell(x)}{_cell(y)}</tr>")
    head = "".join(f"<th scope='col'>{escape(name)}</th>" for name in ("series", "x", "y"))
    return (
        f'<details><summary>The numbers</summary><div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div></details>"
    )
