"""docs/paper_map.md: every artefact of the paper, our number beside the paper's, and the verdict.

It is written from the registry and the committed results alone; a test writes it again and compares.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from binaryduo.paper.artefacts import ARTEFACTS, NOT_PRINTED, Artefact, beyond_the_paper
from binaryduo.paper.experiment import TOO_SMALL, VERDICTS, Verdict
from binaryduo.paper.registry import as_typed, find, find_records
from binaryduo.paper.results import folder, missing, read_best
from binaryduo.paper.searches import best_of_all

HEAD = """# The paper, artefact by artefact

Written by `binaryduo reproduce map` from the registry and from the committed results in `experiments/results`; do not
edit it by hand. Accuracies are test accuracies in percent, mean ± standard deviation over n seeds, after the last
epoch and, where it is another, of the best one. The table shows the one number that decides each verdict; the
others are below it. Verdicts are judged on the last epoch:

- **holds**, **does not hold**: Student's 95 % interval of the difference between the means over seeds lies above zero,
  or below; paired where both sides have the same seeds, else Welch's; in `coupling-pays` with one deviation for all
  ways and lengths, as was decided before its runs;
- **undecided**: that interval contains zero, or nothing shows how much runs scatter ("± ?": one seed only, except in
  `coupling-pays`, whose other lengths show it), or the two sides were trained unequally long;
- **too small to say**: measured only on a quarter of the width after three epochs, or on a reduced grid of
  settings of an even smaller network, which is no verdict on the paper;
- **not run**: nothing was measured yet. The command of the artefact starts it, that of a figure or table with
  `--profile cpu` (reduced, for two cores) or `--profile paper` (the full setting), and continues it after an
  interruption.

Each comparison of trained networks says whether both sides had equal epochs, or whether it is the paper's comparison:
two stages of E epochs each against E epochs. "not printed" means that the paper's text has no number for the artefact.
Where an artefact has several claims, its verdict is the least favourable of those that judge it (of Figure 3 those with
He's initialisation, of Table 2 the cost beside the baseline's); all are listed below the table. Where the results are
committed, a command only shows them: `--results` names another folder, in which everything is measured anew.
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
    commands: list[str]
    number: str = ""  # the one that decides the verdict, and the paper's counterpart
    printed: str = ""


def line_of(artefact: Artefact, results: Path | None = None) -> Line:
    """Collect the verdicts, numbers and pictures of an artefact from the results that exist."""
    root = folder(results)
    details: list[Verdict] = []
    numbers: list[str] = []
    profiles: list[str] = []
    pictures: list[Path] = []
    notes: list[str] = []
    commands: list[str] = []
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
        commands.append(_command(artefact, name, found.profile))
        profiles.append(experiment.setting if found.profile == "full" else found.profile)
        if experiment.numbers is not None:
            numbers.append(experiment.numbers(found.rows))
        else:
            numbers += [v.evidence for v in judged if v.setting.startswith(artefact.judged)][:2]
        pictures += sorted((root / name).glob("*.png"))
    reduced = None if artefact.reduced is None else _reduced(artefact.reduced, root)
    if reduced is not None:
        notes.append(reduced.note)
        pictures += sorted((root / str(artefact.reduced)).glob("*.png"))
    if artefact.beside is not None and (own := read_best(artefact.beside, root)) is not None:
        experiment = find(artefact.beside)
        said = "" if experiment.numbers is None else experiment.numbers(own.rows)
        notes.append(f"beside it, `reproduce {as_typed(artefact.beside)}`: {said}")
        pictures += sorted((root / artefact.beside).glob("*.png"))
    relevant = [v for v in details if v.setting.startswith(artefact.judged)] or details
    verdict = next((name for name in VERDICTS if any(v.verdict == name for v in relevant)), "not run")
    deciding = [v for v in relevant if v.verdict == verdict and v.number]
    foremost = [v for v in deciding if v.claim.startswith(artefact.foremost)] or deciding
    number, printed = (foremost[0].number, foremost[0].printed) if foremost else ("", artefact.printed)
    if not details and reduced is not None and reduced.number:
        verdict, number = TOO_SMALL, reduced.number
    if artefact.pending is not None:
        notes.append(artefact.pending)
    ours = "; ".join(dict.fromkeys(n for n in numbers if n))
    return Line(
        artefact,
        verdict,
        ", ".join(profiles),
        ours,
        details,
        pictures,
        notes,
        list(dict.fromkeys(commands)) or [artefact.how],
        number,
        printed or NOT_PRINTED,
    )


def _command(artefact: Artefact, name: str, profile: str) -> str:
    """What measures these rows of an experiment, where there are none."""
    how = artefact.how if name in artefact.experiments else f"binaryduo reproduce {as_typed(name)}"
    usual = find(name).profile(None)
    return how if profile in ("full", usual) else f"{how} --profile {profile}"


def _enough(artefact: Artefact, name: str, results: Path) -> bool:
    """Whether the part of the work that the artefact is judged by is done."""
    left = missing(name, "paper", results)
    return bool(artefact.needs) and not any(all(unit.get(k) == v for k, v in artefact.needs) for unit in left)


@dataclass(frozen=True)
class _Reduced:
    """What a smaller experiment than the paper's has found; `number` is of a search alone."""

    note: str
    number: str = ""


def _reduced(name: str, results: Path) -> _Reduced | None:
    """A search, or single runs under a budget of time; None where there is none."""
    place, records = results / name, find_records(name)
    if records.collect is None or not place.is_dir():
        return None
    found = "; ".join(records.collect(place))
    if (place / "results.json").exists():
        where = _setting_of_search(json.loads((place / "results.json").read_text()))
        said = f"a reduced search ({where}), no check of the paper's numbers; the best of each grid: "
        best = best_of_all(place)
        number = "" if best is None else f"best of a reduced grid: {best}"
        return _Reduced(said + (found or "nothing measured yet"), number)
    said = "single runs under a budget of minutes, one seed, so nothing is judged by them: "
    return _Reduced(said + (found or "nothing measured yet"))


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
    rows = ["| artefact | claim | ours | paper | verdict |", "| --- " * 5 + "|"]
    for line in found:
        item = line.artefact
        verdict = "not run (not yet)" if item.pending else line.verdict
        cells = [item.title, item.claim, line.number or "–", line.printed, f"**{verdict}**"]
        rows.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    parts = [HEAD, "\n".join(rows), f"\n{summary(found)}\n"]
    parts += [_section(line, docs) for line in found]
    parts += [part for name in beyond_the_paper() if (part := _beyond(name, results, docs)) is not None]
    return "\n".join(parts).rstrip() + "\n"


def summary(found: list[Line]) -> str:
    """How many artefacts have which verdict, in a sentence."""
    counts = {name: sum(line.verdict == name for line in found) for name in VERDICTS}
    return (
        f"Of {len(found)} artefacts of the paper {counts['holds']} hold, {counts['does not hold'] or 'none'} "
        f"{'fail' if counts['does not hold'] > 1 else 'fails'} to hold, {counts['undecided']} are undecided, "
        f"{counts[TOO_SMALL]} were measured only in settings that are too small to say, and {counts['not run']} "
        "were not run."
    )


def _beyond(name: str, results: Path | None, docs: Path | None) -> str | None:
    """A section for an experiment of our own, if it was run."""
    root = folder(results)
    found = read_best(name, root)
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
    item = line.artefact
    out = [f"## {item.title}", ""]
    if not item.pending:
        profile = f" (profile run: {line.profile})" if line.profile else ""
        how = " and ".join(f"`{command}`" for command in line.commands)
        out += [f"{how}{profile}. The paper: {item.paper}.", ""]
    if line.ours and len(line.details) > 1:
        out += [f"Ours: {line.ours.rstrip('.')}.", ""]
    out += [_judged(verdict) for verdict in line.details]
    out += [f"- {note}" for note in line.notes]
    return "\n".join([*out, *_pictures(item.title, line.pictures, docs)]) + "\n"


def _relative(path: Path, docs: Path) -> str:
    return Path(os.path.relpath(path, docs)).as_posix()
