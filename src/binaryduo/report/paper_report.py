"""`binaryduo report --paper`: docs/paper_map.md as a page, each claim in words beside our picture."""

import base64
import io
import re
from pathlib import Path

from PIL import Image

from binaryduo.paper import paper_map
from binaryduo.report.page import Fact, Page, escape

STARTS = {"he": "He's initialisation", "torch": "PyTorch's initialisation", "normal": "normal initialisation"}


def build(results: Path | None = None) -> str:
    """The page's HTML, from the registry and the committed results."""
    lines = paper_map.lines(results)
    page = Page("Does the BinaryDuo paper hold?", paper_map.summary(lines))
    page.section("Every artefact", "all")
    rows = [
        [line.artefact.title, line.artefact.claim, _minus(line.number), _minus(line.printed), _verdict(line)]
        for line in lines
    ]
    page.table(
        ("artefact", "claim", "ours", "paper", "verdict"), rows, "The number that decides", stacked=True
    )
    page.text(
        "Holds, does not hold: the 95 % interval of the difference over seeds lies above zero, or below. Undecided: it "
        "contains zero. Too small to say: measured only on a narrow network after three epochs. Not run: nothing was "
        "measured yet. Not printed: the paper's text has no such number.",
        "note",
    )
    for line in lines:
        if line.details or line.pictures:
            _artefact(page, line)
    missing = [line for line in lines if not line.details and not line.pictures]
    if missing:
        page.section("Not run", "not-run")
        for line in missing:
            page.raw(_missing(line))
    return page.render()


def _verdict(line: paper_map.Line) -> str:
    return "not yet" if line.artefact.pending else line.verdict


def _artefact(page: Page, line: paper_map.Line) -> None:
    item = line.artefact
    page.section(item.title, item.key, verdict=_verdict(line))
    page.raw(f'<div class="claim{" pictured" if line.pictures else ""}"><div>')
    page.text(item.claim)
    if line.number:
        page.facts([Fact(_minus(line.number), "ours"), Fact(_minus(line.printed), "the paper")])
    if line.profile and line.profile != "paper":
        page.text(f"Measured in a reduced setting: the profile {line.profile}.", "note")
    for note in line.notes:
        page.text(_sentence(note), "problem")
    page.raw(f"<p><code>{escape(item.how)}</code></p></div><div>")
    for path in line.pictures[:1]:
        page.raw(_picture(item.title, item.claim, path))
    page.raw("</div></div>")
    more = line.pictures[1:]
    if line.details:
        count = f"{len(line.details)} claim{'s' if len(line.details) > 1 else ''}"
        drawn = f", {len(more)} more picture{'s' if len(more) > 1 else ''}" if more else ""
        page.raw(f"<details><summary>All of the evidence: {count}{drawn}</summary>")
        page.text(f"The paper: {item.paper}.")
        if line.ours:
            page.text(f"Ours: {line.ours}.")
        rows = [[v.verdict, v.claim, v.setting, v.evidence] for v in line.details]
        page.table(
            ("verdict", "claim", "setting", "evidence"), rows, f"{item.title}: every claim", stacked=True
        )
        for path in more:
            page.raw(_picture(f"{item.title}: {_name(path)}", item.claim, path))
        page.raw("</details>")


def _missing(line: paper_map.Line) -> str:
    """An artefact that nothing was measured of: its claim, and the command that would."""
    item = line.artefact
    notes = "".join(f" {escape(_sentence(note))}" for note in line.notes)
    how = "" if item.pending else f"<br><code>{escape(item.how)}</code>"
    return f'<p id="{escape(item.key)}"><strong>{escape(item.title)}</strong>: {escape(item.claim)}{notes}{how}</p>'


def _minus(text: str) -> str:
    """Numbers with the sign of mathematics in front.

    >>> _minus("-1.14 ± 6.04 points at 1e-4")
    '−1.14 ± 6.04 points at 1e-4'
    """
    return re.sub(r"(?<![\w.])-(?=\d)", "−", text)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."


def _name(path: Path) -> str:
    """What a further picture of an artefact shows.

    >>> _name(Path("figure3_torch.png")), _name(Path("surface_full_precision.png"))
    ("PyTorch's initialisation", 'surface, full precision')
    """
    words = path.stem.split("_")
    if words[0].startswith(("figure", "table")):
        words = words[1:]
    return STARTS.get(words[-1], ", ".join(part for part in (words[0], " ".join(words[1:])) if part))


def _picture(caption: str, claim: str, path: Path) -> str:
    shown = f'<img alt="{escape(f"{caption}. {claim}")}" src="{_embedded(path)}">'
    return f"<figure>{shown}<figcaption>{escape(caption)}</figcaption></figure>"


def _embedded(path: Path, width: int = 1100) -> str:
    """A picture as a data address: not wider than needed, with a palette, so that the page stays small."""
    with Image.open(path) as image:
        picture = image.convert("RGB")
    if picture.width > width:
        picture = picture.resize(
            (width, round(picture.height * width / picture.width)), Image.Resampling.LANCZOS
        )
    content = io.BytesIO()
    picture.quantize(128).save(content, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(content.getvalue()).decode()
