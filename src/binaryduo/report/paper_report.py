"""`binaryduo report --paper`: docs/paper_map.md as a page, each claim in words beside our picture."""

import base64
import io
from pathlib import Path

from PIL import Image

from binaryduo.paper import paper_map
from binaryduo.report.page import Page, escape


def build(results: Path | None = None) -> str:
    """The page's HTML, from the registry and the committed results."""
    lines = paper_map.lines(results)
    page = Page(
        "BinaryDuo, artefact by artefact", "What the paper claims, what we measured, and whether it holds"
    )
    page.section("All artefacts", "all")
    rows = [
        [
            line.artefact.title,
            "not yet" if line.artefact.pending else line.verdict,
            line.profile,
            line.ours if len(line.ours) < 160 else line.ours[:157] + "…",
            line.artefact.paper,
        ]
        for line in lines
    ]
    page.table(("artefact", "verdict", "profile run", "ours", "paper"), rows, "Verdicts")
    page.text(
        "Holds, does not hold: the 95 % interval of the difference over seeds lies above zero, or below. Undecided: it "
        "contains zero. Too small to say: measured only on a narrow network after three epochs. Not run: nothing was "
        "measured yet.",
        "note",
    )
    for line in lines:
        _artefact(page, line)
    return page.render()


def _artefact(page: Page, line: paper_map.Line) -> None:
    item = line.artefact
    page.section(item.title, item.key)
    page.raw(f'<div class="claim{" pictured" if line.pictures else ""}"><div>')
    page.text(item.claim)
    verdict = "not yet" if item.pending else line.verdict
    page.raw(
        f'<p><span class="verdict {verdict.replace(" ", "-")}">{verdict}</span>'
        f"{f' · profile {escape(line.profile)}' if line.profile else ''}</p>"
    )
    page.text(f"The paper: {item.paper}.")
    if line.ours:
        page.text(f"Ours: {line.ours}.")
    for note in line.notes:
        page.text(note, "problem")
    if not item.pending:
        page.raw(f"<p><code>{escape(item.how)}</code></p>")
    page.raw("</div><div>")
    for path in line.pictures:
        caption = f"{item.title}: {path.stem.replace('_', ' ')}"
        page.raw(
            f'<figure><img alt="{escape(caption)}" src="{_embedded(path)}"><figcaption>{escape(caption)}</figcaption>'
            "</figure>"
        )
    page.raw("</div></div>")
    if line.details:
        rows = [[v.verdict, v.claim, v.setting, v.evidence] for v in line.details]
        page.table(
            ("verdict", "claim", "setting", "evidence"), rows, f"{item.title}: every claim that was judged"
        )


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
