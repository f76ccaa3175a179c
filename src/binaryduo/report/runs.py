"""Read a run's folder for the report: whatever is there, finished or not; what is wrong is said, never raised.

Beside a run's own files, the folder may hold the JSON of `binaryduo mismatch network --out`, a search's `results.json`,
packed models (*.duo), and measured speed: the JSON of `bench infer --out` or `bench train --out`, or a list of rows
with seconds or images_per_second.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from binaryduo._common.hostile import MEGABYTE, parse_json, read_bytes, read_json
from binaryduo._common.yaml_files import read_keys
from binaryduo.errors import ArgumentError, DataError
from binaryduo.report import checked
from binaryduo.report.checked import Json

OWN = (
    "environment.json",
    "summary.json",
    "model.json",
    "changes.json",
)  # read by name, not by what they look like
STAGES = {"coupled": "coupled", "decoupled": "fine-tuning"}


@dataclass
class StageView:
    """One training: its epochs, and how far it came."""

    name: str
    title: str
    epochs: list[Json] = field(default_factory=list)
    planned: float | None = None
    model: Json = field(default_factory=dict)  # model.json, of a user's own model

    def tested(self) -> list[Json]:
        """The epochs that were tested."""
        return [line for line in self.epochs if "test_top1" in line or "test_loss" in line]

    def best(self) -> Json | None:
        """The epoch with the highest test accuracy; None where no accuracy was measured."""
        measured = [line for line in self.tested() if "test_top1" in line]
        return max(measured, key=lambda line: float(line["test_top1"]), default=None)

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

    def section(self, name: str) -> Json:
        """One part of the recipe, such as `model`; empty where there is none."""
        return checked.mapping(self.recipe.get(name))

    @property
    def own_class(self) -> str | None:
        """The class of a user's own model; None for a network of a recipe."""
        found = self.section("model").get("class")
        return None if found is None else str(found)

    @property
    def decoupled_before(self) -> float | None:
        """Accuracy right after decoupling, before fine-tuning."""
        found = checked.number(checked.mapping(self.summary.get("decoupled_before")).get("top1"))
        return None if found is None else float(found)


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
            run.recipe = read_keys(path / "recipe.yaml", "the recipe")
        except ArgumentError as error:
            run.problems.append(f"recipe.yaml cannot be read: {error}")
    run.starts = checked.mappings(_json(path / "environment.json", run))
    run.summary = checked.mapping(_json(path / "summary.json", run))
    two = any((path / name).is_dir() for name in STAGES)
    for name, title in STAGES.items() if two else [("", _single_title(run))]:
        folder = path / name
        if (folder / "metrics.jsonl").exists():
            settings = run.section("finetune" if name == "decoupled" else "train")
            stage = StageView(
                name or "single", title, _epochs(folder / "metrics.jsonl", run), _planned(settings)
            )
            stage.model = checked.mapping(_json(folder / "model.json", run))
            run.stages.append(stage)
    _extras(run)
    if run.summary or (not run.recipe and _each_complete(run)):
        run.state = "complete"
    elif run.stages or run.recipe:
        run.state = "unfinished"
    else:
        run.state = "complete" if run.search or run.mismatch or run.speeds or run.packed else "empty"
    return run


def _each_complete(run: RunView) -> bool:
    """Whether the stages are runs of their own, each of them complete."""
    return bool(run.stages) and all((run.path / s.name / "summary.json").exists() for s in run.stages)


def _single_title(run: RunView) -> str:
    if run.own_class is not None:
        return run.own_class
    return str(run.section("model").get("variant", "training"))


def _planned(settings: Json) -> float | None:
    return None if settings.get("minutes") is not None else checked.number(settings.get("epochs"))


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _json(path: Path, run: RunView) -> Any:
    """The content of a JSON file, None where there is none; a broken one becomes a problem of the run."""
    if not path.exists():
        return None
    try:
        return read_json(path, "the file", DataError, finite=False)
    except DataError as error:
        run.problems.append(f"{path.name} cannot be read: {_first_line(error)}")
        return None


def _epochs(path: Path, run: RunView) -> list[Json]:
    """The epoch lines; a line that a crash has cut short is left out and mentioned."""
    out, broken, lost = [], 0, 0
    name = f"{path.parent.name}/{path.name}"
    try:
        lines = read_bytes(path, "the file", DataError, limit=1024 * MEGABYTE).splitlines()
    except DataError as error:
        run.problems.append(f"{name} cannot be read: {error}")
        return []
    for line in lines:
        try:
            entry = checked.mapping(parse_json(line, "a line", DataError, finite=False))
        except DataError:
            broken += 1
            continue
        found = checked.epoch(entry)
        if found is not None:
            out.append(found[0])
            lost += found[1]
        broken += found is None and entry.get("kind") not in ("step", "epoch", "profile")
    if broken:
        run.problems.append(f"{broken} lines of {name} cannot be read and are left out")
    _left_out(run, lost, name)
    return out


def _left_out(run: RunView, lost: int, name: str) -> None:
    """Say that values were no numbers."""
    if lost:
        run.problems.append(f"{lost} values of {name} are missing or not finite numbers, and are left out")


def _extras(run: RunView) -> None:
    """JSON files and packed models beside the run, recognised by what they hold."""
    for path in sorted(run.path.glob("*.json")):
        if path.name in OWN:
            continue
        content = _json(path, run)
        rows = content if isinstance(content, list) else []
        if isinstance(content, dict) and str(content.get("format", "")).startswith("binaryduo-search/"):
            run.search, lost = checked.search(content)
            _left_out(run, lost, path.name)
        elif rows and all(isinstance(r, dict) and "layers" in r and "total" in r for r in rows):
            for row in rows:
                profile, lost = checked.profile(row)
                run.mismatch.append(profile)
                _left_out(run, lost, path.name)
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
                "times binaryduo": checked.mapping(row.get("ratios")).get(name, 1.0),
            }
            for row in rows
            for name, value in row["milliseconds"].items()
        ]
    return rows if all({"seconds", "images_per_second"} & row.keys() for row in rows) else []


def _packed(path: Path, run: RunView) -> Json:
    """Size and layers of a packed file; the format is read with NumPy alone, nothing is run."""
    from binaryduo.engine import format as duo
    from binaryduo.errors import BinaryDuoError

    entry: Json = {"file": path.name, "bytes": path.stat().st_size if path.is_file() else None}
    try:
        program = duo.read(path)
    except BinaryDuoError as error:
        run.problems.append(f"{path.name} cannot be read: {_first_line(error)}")
        return entry
    weights = sum(array.nbytes for op in program.ops for _, array in op.arrays())
    return {**entry, "operations": len(program.ops), "array bytes": weights}
