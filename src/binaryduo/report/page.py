"""One HTML file that needs nothing else: style, script, Plotly and every picture are inside it.

Plotly's cartesian bundle (MIT, its licence beside it in assets/) is shipped compressed with the package; a page without
interactive pictures does not get it.
"""

import gzip
import html
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from binaryduo.paper.experiment import VERDICTS
from binaryduo.report import checked

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


class Fact(NamedTuple):
    """A number worth its own tile, and what it is."""

    value: str
    label: str


@dataclass
class Page:
    """Collects sections; `render` gives the file's text. `lead` is the result in a sentence or two."""

    title: str
    lead: str = ""
    parts: list[str] = field(default_factory=list)
    links: list[tuple[int, str, str, str]] = field(default_factory=list)  # level, key, title, verdict
    figures: list[dict[str, Any]] = field(default_factory=list)

    def section(self, title: str, key: str, level: int = 2, verdict: str = "") -> None:
        """Begin a section, which the page's menu links to; a verdict stands beside its title."""
        self.links.append((level, key, title, verdict))
        mark = f" {badge(verdict)}" if verdict else ""
        self.parts.append(f'<h{level} id="{escape(key)}">{escape(title)}{mark}</h{level}>')

    def text(self, content: str, kind: str = "") -> None:
        """A paragraph of plain text; `kind` is a class of the style sheet (lead, note, problem)."""
        role = ' role="status"' if kind == "problem" else ""
        self.parts.append(
            f'<p class="{kind}"{role}>{escape(content)}</p>' if kind else f"<p>{escape(content)}</p>"
        )

    def facts(self, facts: Sequence[Fact]) -> None:
        """Tiles with one number each."""
        tiles = "".join(
            f"<div><dt>{escape(fact.label)}</dt><dd>{escape(fact.value)}</dd></div>" for fact in facts
        )
        if tiles:
            self.parts.append(f'<dl class="facts">{tiles}</dl>')

    def table(
        self, head: Sequence[str], rows: Sequence[Sequence[object]], caption: str, stacked: bool = False
    ) -> None:
        """A table that can be sorted by every column; on a phone it scrolls by itself, or is `stacked` into cards.

        The numbers of a column have equally many decimals.
        """
        columns = [_column([row[place] for row in rows]) for place in range(len(head))]
        cells = "".join(
            f'<th scope="col" aria-sort="none"{side}><button type="button">{escape(name)}</button></th>'
            for name, (side, _) in zip(head, columns, strict=True)
        )
        body = "".join(
            "<tr>"
            + "".join(
                shown[number].replace("<td", f'<td data-label="{escape(name)}"', 1)
                if stacked
                else shown[number]
                for name, (_, shown) in zip(head, columns, strict=True)
            )
            + "</tr>"
            for number in range(len(rows))
        )
        kind = "sortable stacked" if stacked else "sortable"
        self.parts.append(
            f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table class="{kind}">'
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
        links = "".join(
            f'<li class="level{level}"><a href="#{escape(key)}">{escape(title)}{_dot(verdict)}</a></li>'
            for level, key, title, verdict in self.links
        )
        script, style = ((ASSETS / name).read_text() for name in ("report.js", "report.css"))
        plotly = ""
        if self.figures:
            plotly = _plotly()
        data = json.dumps(self.figures, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
        lead = f'<p class="lead">{escape(self.lead)}</p>' if self.lead else ""
        return (
            "<!doctype html>\n"
            '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(self.title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
            '<a class="skip" href="#content">Skip to the content</a>\n'
            '<nav aria-label="Contents"><div class="bar">'
            '<button type="button" id="menu" aria-expanded="false" aria-controls="contents">Contents</button>'
            '<a class="brand" href="#top">binaryduo</a>'
            '<button type="button" id="theme" aria-pressed="false">Dark</button></div>'
            f'<ul id="contents">{links}</ul></nav>\n'
            f'<main id="content">\n<header id="top"><h1>{escape(self.title)}</h1>{lead}</header>\n'
            f"{chr(10).join(self.parts)}\n</main>\n"
            f'<script type="application/json" id="figures">{data}</script>\n'
            f"{plotly}<script>{script}</script>\n</body>\n</html>\n"
        )


@lru_cache(maxsize=1)
def _plotly() -> str:
    """The plotting library as part of a page, with its licence."""
    licence = (ASSETS / "PLOTLY_LICENSE").read_text().replace("--", "- -")
    source = gzip.decompress(PLOTLY.read_bytes()).decode().replace("</script", "<\\/script")
    return f"<!-- Plotly.js:\n{licence}-->\n<script>{source}</script>\n"


def badge(verdict: str) -> str:
    """A verdict as a coloured word."""
    return f'<span class="verdict {_kind(verdict)}">{escape(verdict)}</span>'


def _dot(verdict: str) -> str:
    """A verdict as a coloured dot, for the menu."""
    return f'<i class="{_kind(verdict)}" title="{escape(verdict)}"></i>' if verdict else ""


def _kind(verdict: str) -> str:
    return verdict.replace(" ", "-") if verdict in (*VERDICTS, "not yet") else ""


def _column(values: Sequence[object]) -> tuple[str, list[str]]:
    """How a column is aligned, and its cells; numbers keep their exact value to sort by."""
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    form = _format(numbers)
    present = sum(value is not None for value in values)
    side = ' class="number"' if numbers and len(numbers) == present else ""
    return side, [_cell(value, form) for value in values]


def _format(numbers: Sequence[int | float]) -> str:
    """A format that gives all numbers of a column the same decimals, where they are of similar size.

    >>> _format([73.8, 73.45]), _format([1e-5, 10.0]), _format([3, 4000])
    (',.2f', 'g', ',')
    """
    sizes = [abs(number) for number in numbers if number and checked.number(number) is not None]
    if all(isinstance(number, int) for number in numbers) or not sizes:
        return ","
    if max(sizes) >= 1e15 or min(sizes) < 1e-3 or max(sizes) > 1e5 * min(sizes):
        return "g"
    return f",.{min(4, max(1, 3 - math.floor(math.log10(max(sizes)))))}f"


def _cell(value: object, form: str = ",.4g") -> str:
    """Numbers to the right, with their exact value to sort by."""
    if isinstance(value, bool) or value is None:
        return f"<td>{'' if value is None else 'yes' if value else 'no'}</td>"
    if isinstance(value, int | float):
        return f'<td class="number" data-value="{value!r}">{value:{"," if isinstance(value, int) else form}}</td>'
    text = str(value)
    return f"<td>{badge(text) if _kind(text) else escape(text)}</td>"


def _numbers(figure: dict[str, Any]) -> str:
    """The points of a picture as a table, for whoever cannot see or hover it."""
    rows = []
    for trace in figure["data"]:
        if "z" in trace:
            continue
        for x, y in zip(trace["x"], trace["y"], strict=True):
            rows.append(f"<tr><td>{escape(trace.get('name', ''))}</td>{_cell(x)}{_cell(y)}</tr>")
    if not rows:
        return ""
    head = "".join(f"<th scope='col'>{escape(name)}</th>" for name in ("series", "x", "y"))
    return (
        f'<details><summary>The numbers</summary><div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div></details>"
    )
