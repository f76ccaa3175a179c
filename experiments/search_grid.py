"""The grids behind Figure 6, reduced: which weight decay and learning rate does each training scheme want?

Claim of the paper (VGG-7 on CIFAR-10, 13 × 10 settings, two runs or more each, 200 epochs): the best of the
grid is 89.07 % for the binary baseline, 89.69 % coupled, 90.44 % decoupled and fine-tuned, 88.93 % decoupled
from scratch.

What differs here, chosen before the run: Fashion-MNIST's embedded 10,000 + 2,000 images, VGG-7 at an eighth
of its width, two epochs (and two of fine-tuning) of batches of 100 with a one-cycle schedule, 5 × 4 settings,
two runs each, ranked by the last epoch instead of the best. So this shows that the search works and how the
four cases compare under a very short training; it is no check of the paper's numbers.

Found (best mean ± deviation over two runs of the 20 settings, last epoch; all 160 trials completed):

    baseline                 76.68 ± 0.32 %   at decay 0.1,  rate 0.064
    coupled                  77.62 ± 0.32 %   at decay 0.1,  rate 0.064
    decoupled, from scratch  78.65 ± 0.85 %   at decay 0.01, rate 0.016
    decoupled, fine-tuned    80.50 ± 0.42 %   at decay 0.1,  rate 0.0064, from a coupled network of 77.85 %

Coupled above baseline and fine-tuned above all is the paper's order. From scratch above baseline is not: the paper
has it below. And the fine-tuned network has had four epochs where the others had two, so that its lead is not shown
to come from the scheme. Three of the four best lie at the highest rate searched: the grid should have reached further.
Decay hardly matters up to 1 in so short a training; 10 with a high rate ruins it.

    python experiments/search_grid.py run        160 trainings, resumable; minutes on two cores
    python experiments/search_grid.py collect    results/search_grid/results.json from the search's folder
    python experiments/search_grid.py plot       pictures, tables and recipes from that JSON alone
"""

import json
import sys
from pathlib import Path

from binaryduo.search import Search, collect, read_results, run_search
from binaryduo.search.local import SearchStopped, open_search
from binaryduo.search.outcome import write_outcome
from binaryduo.search.results import overhead
from binaryduo.search.tables import best_table
from binaryduo.training import named, with_settings

RESULTS = Path(__file__).parent / "results" / "search_grid"
FOLDER = Path("runs") / "search-grid"
SEARCH = Search(
    name="grid",
    cases=("baseline", "coupled", "scratch", "decoupled"),
    weight_decay="1e-3:10:5",
    lr="1e-3:6.4e-2:4",
    finetune_lr="1e-4:6.4e-3:4",
    repeats=2,
    recipe=with_settings(
        named("demo"), ["model.width=0.125", "train.epochs=2", "finetune.epochs=2", "loop.engine=eager"]
    ),
)


def run() -> None:
    try:
        run_search(SEARCH, FOLDER)
    except SearchStopped as stopped:
        print(stopped)


def gather() -> None:
    storage, studies = open_search(SEARCH, FOLDER, None)
    results = collect(SEARCH, studies)
    storage.engine.dispose()
    RESULTS.mkdir(parents=True, exist_ok=True)
    found = {**results, "overhead": overhead(FOLDER)}
    (RESULTS / "results.json").write_text(json.dumps(found, indent=1) + "\n")


def plot() -> None:
    from rich.console import Console

    results = read_results(RESULTS)
    write_outcome(results, RESULTS)
    Console().print(best_table(results))


if __name__ == "__main__":
    verbs = {"run": run, "collect": gather, "plot": plot}
    if len(sys.argv) != 2 or sys.argv[1] not in verbs:
        sys.exit(f"usage: python {sys.argv[0]} {' | '.join(verbs)}")
    verbs[sys.argv[1]]()
