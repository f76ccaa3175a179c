"""docs/paper_map.md: every artefact of the paper, our number beside the paper's, and the verdict.

It is written from the registry and the committed results alone; a test writes it again and compares.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from binaryduo.report import experiments
from binaryduo.report.artefacts import ARTEFACTS, Artefact

ORDER = ("does not hold", "undecided", "not run", "holds")

HEAD = """# The paper, artefact by artefact

Written by `binaryduo reproduce map` from the registry and from the committed results in `experiments/results`; do not
edit it by hand. Accuracies are test accuracies in percent, mean ± standard deviation over n seeds, behind the last
epoch and of the best one. Verdicts are judged on the last epoch:

- **holds**, **does not hold**: the difference is larger than the spread over seeds, as claimed or the other way;
- **undecided**: the spread is larger than the difference (on the toy problem: the 95 % interval of the mean over seeds
  contains zero);
- **not run**: nothing was measured yet. The command of the artefact starts it, with `--profile cpu` (reduced, for two
  cores) or `--profile paper` (the full setting), and continues it after an interruption.

"not printed" means that the paper's text has no number for the artefact. Where an artefact has several claims, its
verdict is the least favourable one; all are listed below the table.
"""


@dataclass(frozen=True)
class Line:
    """What is known of one artefact."""

    artefact: Artefact
    verdict: str
    profile: str
    ours: str
    details: list[Any]  # verdicts
    pictures: list[Path]
    notes: list[str]


def line_of(artefact: Artefact, results: Path | None = None) -> Line:
    """Collect the verdicts, numbers and pictures of an artefact from the results that exist."""
    root = experiments.folder() / "results" if results is None else results
    details: list[Any] = []
    numbers: list[str] = []
    profiles: list[str] = []
    pictures: list[Path] = []
    notes: list[str] = []
    for name in artefact.experiments:
        found = experiments.read_best(name, root) if experiments.exists(name) else None
        if found is None:
            continue
        judged = []
        if found.done < found.total:
            notes.append(
                f"{found.done} of {found.total} parts are done; a claim is judged where all of its parts are"
            )
        if found.done == found.total or _enough(artefact, name, root):
            judged = experiments.verdicts(name, found.rows)
        if found.done < found.total:  # half of the rows can say the opposite of all of them
            judged = [v for v in judged if v.setting.startswith(artefact.judged)]
        if not judged:
            continue
        details += judged
        loaded = experiments.module(name)
        full = getattr(
            loaded, "SETTING", "paper"
        )  # what an experiment of ours does instead of the paper's size
        profiles.append(full if found.profile == "full" else found.profile)
        if hasattr(loaded, "numbers"):
            numbers.append(loaded.numbers(found.rows))
        else:
            numbers += [v.evidence for v in judged if v.setting.startswith(artefact.judged)][:2]
        pictures += sorted((root / name).glob("*.png"))
    if artefact.reduced is not None and (note := _reduced(root / artefact.reduced)) is not None:
        notes.append(note)
        pictures += sorted((root / artefact.reduced).glob("*.png"))
    relevant = [v.verdict for v in details if v.setting.startswith(artefact.judged)]
    verdict = next((v for v in ORDER if v in relevant), "not run")
    if artefact.pending is not None:
        notes.append(artefact.pending)
    return Line(
        artefact, verdict, ", ".join(profiles), "; ".join(n for n in numbers if n), details, pictures, notes
    )


def _enough(artefact: Artefact, name: str, results: Path) -> bool:
    """Whether the part of the work that the artefact is judged by is done."""
    left = experiments.missing_units(name, "paper", results)
    return bool(artefact.needs) and not any(all(unit.get(k) == v for k, v in artefact.needs) for unit in left)


def _reduced(folder: Path) -> str | None:
    """What a smaller experiment than the paper's has found: a search, or single runs under a budget of time."""
    if (folder / "results.json").exists():
        return _search_note(json.loads((folder / "results.json").read_text()))
    if (folder / "metrics.json").exists():
        return _budget_note(json.loads((folder / "metrics.json").read_text()))
    return None


def _search_note(found: dict[str, Any]) -> str:
    """The best of each case."""
    recipe = found.get("search", {}).get("recipe", {})
    model, stage = recipe.get("model", {}), recipe.get("train", {})
    where = (
        f"{model.get('network')} at width {model.get('width')} on {recipe.get('data', {}).get('name')}, "
        f"{stage.get('epochs')} epochs"
    )
    best = [
        f"{case['title']} {case['best']['mean']:.2f} (n {case['best']['n']})"
        for case in found["cases"].values()
        if case["best"] is not None
    ]
    return f"a reduced search ({where}), no check of the paper's numbers; the best of each grid: {', '.join(best)}"


def _budget_note(found: dict[str, Any]) -> str:
    """Last and best accuracy of each stage of single runs; unfinished ones say so."""
    parts = []
    for run in found.values():
        if not isinstance(run, dict):
            continue
        for name, stage in run["stages"].items():
            tested = [line for line in stage["epochs"] if "test_top1" in line]
            if tested:
                best = max(line["test_top1"] for line in tested)
                epoch = f"epoch {tested[-1]['epoch']}"
                parts.append(f"{name} last {tested[-1]['test_top1']:.2f}, best {best:.2f} ({epoch})")
        if not isinstance(run["summary"], dict):
            parts.append("this run is not complete")
    what = "; ".join(parts) if parts else "nothing measured yet"
    return f"single runs under a budget of minutes, one seed, so nothing is judged by them: {what}"


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
        for v in ("holds", "does not hold", "undecided", "not run")
    )
    parts = [HEAD, "\n".join(rows), f"In short: {counts}.\n"]
    parts += [_section(line, docs) for line in found if line.details or line.notes]
    return "\n".join(parts).rstrip() + "\n"


def _section(line: Line, docs: Path | None) -> str:
    out = [f"## {line.artefact.title}", ""]
    out += [
        f"- **{v.verdict}**: {v.claim}{f' ({v.setting})' if v.setting else ''}: {v.evidence}"
        for v in line.details
    ]
    out += [f"- {note}" for note in line.notes]
    if docs is not None and line.pictures:
        out.append("")
        for path in line.pictures:
            out.append(f"![{line.artefact.title}: {path.stem.replace('_', ' ')}]({_relative(path, docs)})")
    return "\n".join(out) + "\n"


def _relative(path: Path, docs: Path) -> str:
    return Path(os.path.relpath(path, docs)).as_posix()
