"""Read a run's folder for the report: whatever is there, finished or not; what is wrong is said, never raised.

Beside a run's own files, the folder may hold the JSON of `binaryduo mismatch network --out`, a search's `results.json`,
packed models (*.duo), and measured speed: the JSON of `bench infer --out` or `bench train --out`, or a list of rows
with seconds or images_per_second.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]
OWN = ("environment.json", "summary.json")  # read by name, not by what they look like
STAGES = {"coupled": "coupled", "decoupled": "fine-tuning"}


@dataclass
class StageView:
    """One training: its epochs, and how far it came."""

    name: str
    title: str
    epochs: list[Json] = field(default_factory=list)
    planned: int | None = None

    def tested(self) -> list[Json]:
        """The epochs that were tested."""
        return [line for line in self.epochs if "test_top1" in line]

    def best(self) -> Json | None:
        """The epoch with the highest test accuracy."""
        return max(self.tested(), key=lambda line: float(line["test_top1"]), default=None)

    def last(self) -> Json | None:
        """The newest tested epoch."""
        tested = self.tested()
        return tested[-1] if tested else None


@dataclass
class RunView:
    """All that a report shows of one folder."""

    path: Path
    state: str = "missing"  # missing, empty, unfinished, complete
    recipe: Json = field(default_factory=dict)
    starts: list[Json] = field(default_factory=list)
    summary: Json = field(default_factory=dict)
    stages: list[StageView] = field(default_factory=list)
    mismatch: list[Json] = field(default_factory=list)
    search: Json | None = None
    speeds: list[tuple[str, list[Json]]] = field(default_factory=list)
    packed: list[Json] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What to call it: the folder's name."""
        return self.path.name or str(self.path)

    @property
    def decoupled_before(self) -> float | None:
        """Accuracy right after decoupling, before fine-tuning."""
        found = self.summary.get("decoupled_before")
        return float(found["top1"]) if isinstance(found, dict) and "top1" in found else None


def read_run(path: Path) -> RunView:
    """Everything that can be read of a run.

    >>> read_run(Path("there-is-no-such-run")).state
    'missing'
    """
    run = RunView(path)
    if not path.is_dir():
        run.problems.append("there is no such folder")
        return run
    if (path / "recipe.yaml").exists():
        try:
            recipe = yaml.safe_load((path / "recipe.yaml").read_text())
            run.recipe = recipe if isinstance(recipe, dict) else {}
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            run.problems.append(f"recipe.yaml cannot be read: {_first_line(error)}")
    starts = _json(path / "environment.json", run)
    run.starts = [entry for entry in starts if isinstance(entry, dict)] if isinstance(starts, list) else []
    summary = _json(path / "summary.json", run)
    run.summary = summary if isinstance(summary, dict) else {}
    two = any((path / name).is_dir() for name in STAGES)
    for name, title in STAGES.items() if two else [("", _single_title(run))]:
        folder = path / name
        if (folder / "metrics.jsonl").exists():
            settings = run.recipe.get("finetune" if name == "decoupled" else "train") or {}
            stage = StageView(
                name or "single", title, _epochs(folder / "metrics.jsonl", run), _planned(settings)
            )
            run.stages.append(stage)
    _extras(run)
    if run.summary:
        run.state = "complete"
    elif run.stages or run.recipe:
        run.state = "unfinished"
    else:
        run.state = "complete" if run.search or run.mismatch or run.speeds or run.packed else "empty"
    return run


def _single_title(run: RunView) -> str:
    return str((run.recipe.get("model") or {}).get("variant", "training"))


def _planned(settings: Json) -> int | None:
    return None if settings.get("minutes") is not None else settings.get("epochs")


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _json(path: Path, run: RunView) -> Any:
    """The content of a JSON file, None where there is none; a broken one becomes a problem of the run."""
    if not path.exists():
        return None
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        run.problems.append(f"{path.name} cannot be read: {_first_line(error)}")
        return None


def _epochs(path: Path, run: RunView) -> list[Json]:
    """The epoch lines; a line that a crash has cut short is left out and mentioned."""
    out, broken = [], 0
    for line in path.read_text(errors="replace").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            broken += 1
            continue
        if isinstance(entry, dict) and entry.get("kind") == "epoch" and "epoch" in entry:
            out.append(entry)
    if broken:
        run.problems.append(
            f"{broken} lines of {path.parent.name}/{path.name} cannot be read and are left out"
        )
    return out


def _extras(run: RunView) -> None:
    """JSON files and packed models beside the run, recognised by what they hold."""
    for path in sorted(run.path.glob("*.json")):
        if path.name in OWN:
            continue
        content = _json(path, run)
        rows = content if isinstance(content, list) else []
        if isinstance(content, dict) and str(content.get("format", "")).startswith("binaryduo-search/"):
            run.search = content
        elif rows and all(isinstance(r, dict) and "layers" in r and "total" in r for r in rows):
            run.mismatch += rows
        elif speeds := _speeds(content):
            run.speeds.append((path.stem, speeds))
    for path in sorted(run.path.glob("*.duo")):
        run.packed.append(_packed(path, run))


def _speeds(content: Any) -> list[Json]:
    """Rows of measured speed: those of `bench infer --out`, of `bench train --out`, or a plain list of such rows.

    >>> row = {"title": "vgg7", "milliseconds": {"binaryduo": 1.0, "torch": 4.0}, "ratios": {"torch": 4.0}}
    >>> [(found["contender"], found["times binaryduo"]) for found in _speeds([row])]
    [('binaryduo', 1.0), ('torch', 4.0)]
    """
    rows = content.get("rows") if isinstance(content, dict) else content
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        return []
    if all(isinstance(row.get("milliseconds"), dict) for row in rows):
        return [
            {
                "what": row.get("title"),
                "threads": row.get("threads"),
                "contender": name,
                "milliseconds": value,
                "times binaryduo": row.get("ratios", {}).get(name, 1.0),
            }
            for row in rows
            for name, value in row["milliseconds"].items()
        ]
    return rows if all({"seconds", "images_per_second"} & row.keys() for row in rows) else []


def _packed(path: Path, run: RunView) -> Json:
    """Size and layers of a packed file; the format is read with NumPy alone, nothing is run."""
    from binaryduo.engine import format as duo
    from binaryduo.errors import BinaryDuoError

    entry: Json = {"file": path.name, "bytes": path.stat().st_size}
    try:
        program = duo.read(path)
    except BinaryDuoError as error:
        run.problems.append(f"{path.name} cannot be read: {_first_line(error)}")
        return entry
    weights = sum(array.nbytes for op in program.ops for _, array in op.arrays())
    return {**entry, "operations": len(program.ops), "array bytes": weights}
