"""docs/paper_map.md: every artefact of the paper, our number beside the paper's, and the verdict.

It is written from the registry and the committed results alone; a test writes it again and compares.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from binaryduo.paper.artefacts import ARTEFACTS, Artefact
from binaryduo.paper.experiment import TOO_SMALL, VERDICTS, Verdict
from binaryduo.paper.registry import EXPERIMENTS, find, find_records
from binaryduo.paper.results import folder, missing, read_best

HEAD = """# The paper, artefact by artefact

Written by `binaryduo reproduce map` from the registry and from the committed results in `experiments/results`; do not
edit it by hand. Accuracies are test accuracies in percent, mean ± standard deviation over n seeds, after the last
epoch and of the best one. Verdicts are judged on the last epoch:

- **holds**, **does not hold**: Student's 95 % interval of the difference between the means over seeds lies above zero,
  or below; paired where both sides have the same seeds, else Welch's;
- **undecided**: that interval contains zero, or there is one seed only, or the two sides were trained unequally long;
- **too small to say**: measured only on a quarter of the width after three epochs, which is no verdict on the paper;
- **not run**: nothing was measured yet. The command of the artefact starts it, with `--profile cpu` (reduced, for two
  cores) or `--profile paper` (the full setting), and continues it after an interruption.

Each comparison of trained networks says whether both sides had equal epochs, or whether it is the paper's comparison:
two stages of E epochs each against E epochs. "not printed" means that the paper's text has no number for the artefact.
Where an artefact has several claims, its verdict is the least favourable one; all are listed below the table.
"""


@dataclass(frozen=True)
class Line:
    """What is known of one artefact."""

    artefact: Artefact
    verdict: str
    profile: str
    ours: str
    details: list[Verdict]
    pictures: list[Path]
    notes: list[str]


def line_of(artefact: Artefact, results: Path | None = None) -> Line:
    """Collect the verdicts, numbers and pictures of an artefact from the results that exist."""
    root = folder(results)
    details: list[Verdict] = []
    numbers: list[str] = []
    profiles: list[str] = []
    pictures: list[Path] = []
    notes: list[str] = []
    for name in (*artefact.experiments, *([] if artefact.study is None else [artefact.study])):
        experiment, found = find(name), read_best(name, root)
        if found is None:
            continue
        judged: list[Verdict] = []
        if not found.complete:
            notes.append(
                f"{found.done} of {found.total} parts are done; a claim is judged where all of its parts are"
            )
        if found.complete or experiment.judges_parts or _enough(artefact, name, root):
            judged = experiment.verdicts(found.rows)
        if (
            not found.complete and not experiment.judges_parts
        ):  # half of the rows can say the opposite of all of them
            judged = [v for v in judged if v.setting.startswith(artefact.judged)]
        if not judged:
            continue
        details += judged
        profiles.append(experiment.setting if found.profile == "full" else found.profile)
        if experiment.numbers is not None:
            numbers.append(experiment.numbers(found.rows))
        else:
            numbers += [v.evidence for v in judged if v.setting.startswith(artefact.judged)][:2]
        pictures += sorted((root / name).glob("*.png"))
    if artefact.reduced is not None and (note := _reduced(artefact.reduced, root)) is not None:
        notes.append(note)
        pictures += sorted((root / artefact.reduced).glob("*.png"))
    relevant = [v.verdict for v in details if v.setting.startswith(artefact.judged)]
    verdict = next((v for v in VERDICTS if v in (relevant or [v.verdict for v in details])), "not run")
    if artefact.pending is not None:
        notes.append(artefact.pending)
    return Line(
        artefact, verdict, ", ".join(profiles), "; ".join(n for n in numbers if n), details, pictures, notes
    )


def _enough(artefact: Artefact, name: str, results: Path) -> bool:
    """Whether the part of the work that the artefact is judged by is done."""
    left = missing(name, "paper", results)
    return bool(artefact.needs) and not any(all(unit.get(k) == v for k, v in artefact.needs) for unit in left)


def _reduced(name: str, results: Path) -> str | None:
    """What a smaller experiment than the paper's has found: a search, or single runs under a budget of time."""
    place, records = results / name, find_records(name)
    if records.collect is None or not place.is_dir():
        return None
    found = "; ".join(records.collect(place)) or "nothing measured yet"
    if (place / "results.json").exists():
        where = _setting_of_search(json.loads((place / "results.json").read_text()))
        return f"a reduced search ({where}), no check of the paper's numbers; the best of each grid: {found}"
    return f"single runs under a budget of minutes, one seed, so nothing is judged by them: {found}"


def _setting_of_search(found: dict[str, Any]) -> str:
    recipe = found.get("search", {}).get("recipe", {})
    model, stage = recipe.get("model", {}), recipe.get("train", {})
    return (
        f"{model.get('network')} at width {model.get('width')} on {recipe.get('data', {}).get('name')}, "
        f"{stage.get('epochs')} epochs"
    )


def lines(results: Path | None = None) -> list[Line]:
    """Every artefact, in the paper's order."""
    return [line_of(artefact, results) for artefact in ARTEFACTS]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def markdown(results: Path | None = None, docs: Path | None = None) -> str:
    """The whole document; links to pictures are relative to `docs`."""
    found = lines(results)
    rows = ["| artefact | claim | command | profile run | ours | paper | verdict |", "| --- " * 7 + "|"]
    for line in found:
        item = line.artefact
        how = "" if item.pending else f"`{item.how}`"
        verdict = "not run (not yet)" if item.pending else line.verdict
        cells = [item.title, item.claim, how, line.profile, line.ours, item.paper, f"**{verdict}**"]
        rows.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    counts = ", ".join(
        f"{sum(line.verdict == v for line in found)} {v}"
        for v in ("holds", "does not hold", "undecided", TOO_SMALL, "not run")
    )
    parts = [HEAD, "\n".join(rows), f"In short: {counts}.\n"]
    parts += [_section(line, docs) for line in found if line.details or line.notes]
    parts += [part for name in EXPERIMENTS if (part := _beyond(name, results, docs)) is not None]
    return "\n".join(parts).rstrip() + "\n"


def _beyond(name: str, results: Path | None, docs: Path | None) -> str | None:
    """A section for an experiment of our own, if it was run."""
    root = folder(results)
    found = None if any(name in item.experiments for item in ARTEFACTS) else read_best(name, root)
    if found is None:
        return None
    experiment = find(name)
    out = [f"## Beyond the paper: {experiment.title}", ""]
    if experiment.numbers is not None:
        out += [experiment.numbers(found.rows), ""]
    if not found.complete:
        out += [f"{found.done} of {found.total} parts are done.", ""]
    out += [_judged(v) for v in experiment.verdicts(found.rows)]
    return "\n".join([*out, *_pictures(experiment.title, sorted((root / name).glob("*.png")), docs)]) + "\n"


def _judged(v: Verdict) -> str:
    return f"- **{v.verdict}**: {v.claim}{f' ({v.setting})' if v.setting else ''}: {v.evidence}"


def _pictures(title: str, paths: list[Path], docs: Path | None) -> list[str]:
    if docs is None or not paths:
        return []
    return ["", *(f"![{title}: {path.stem.replace('_', ' ')}]({_relative(path, docs)})" for path in paths)]


def _section(line: Line, docs: Path | None) -> str:
    out = [f"## {line.artefact.title}", ""]
    out += [_judged(verdict) for verdict in line.details]
    out += [f"- {note}" for note in line.notes]
    return "\n".join([*out, *_pictures(line.artefact.title, line.pictures, docs)]) + "\n"


def _relative(path: Path, docs: Path) -> str:
    return Path(os.path.relpath(path, docs)).as_posix()
