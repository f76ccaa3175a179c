"""Appendix D and Table 2's accuracies: AlexNet, ResNet-18 and ResNet-18+sc on ImageNet, both stages.

Claim: top-1 52.7, 60.4 and 60.9 % (AlexNet, ResNet-18, +sc), with the learning curves of the figure. Not run here: it
needs ImageNet (`--root FOLDER`, class folders or shards) and GPUs. The `smoke` profile is the same code on whatever
small class folders `--root` names, one epoch, small images.

The settings are the paper's (Appendix D), as in the recipes alexnet-imagenet, resnet18-imagenet, resnet18-sc-imagenet.
"""

from matplotlib.figure import Figure

from binaryduo import training
from binaryduo.paper import trainings as t
from binaryduo.paper.accuracies import select, setting
from binaryduo.paper.experiment import TRAINED, Experiment, Row, Unit, Verdict
from binaryduo.paper.pictures import curves
from binaryduo.paper_values import IMAGENET


def units(profile: str) -> list[Unit]:
    out = []
    for name in IMAGENET:
        recipe = training.named(f"{name}-imagenet")
        assert recipe.finetune is not None
        work: Unit = {
            "stages": 2,
            "seed": 0,
            "network": name,
            "data": "imagenet",
            "width": 1.0,
            "epochs": recipe.train.epochs,
            "finetune": recipe.finetune.epochs,
            "recipe": recipe.name,
            "levels": 3,
            "ste": "relu1",
            "variant": "coupled",
            "topology": "duo",
        }
        if profile == "smoke":
            work |= {"width": 0.1, "epochs": 1, "finetune": 1, "image_size": 64, "batch": 8, "workers": 0}
        out.append(work)
    return out


def verdicts(rows: list[Row]) -> list[Verdict]:
    out = []
    for name, paper in IMAGENET.items():
        for row in select(rows, network=name, stage="decoupled"):
            near = abs(row["best"] - paper) <= 0.5
            out.append(
                Verdict(
                    f"{name} reaches {paper} % top-1 within half a point (best epoch, as in the paper)",
                    setting(row),
                    "holds" if near or row["best"] > paper else "does not hold",
                    f"best {row['best']:.2f}, last {row['last']:.2f}",
                    f"{name}: {row['best']:.2f} %",
                    f"{paper} %",
                )
            )
    return out


def numbers(rows: list[Row]) -> str:
    return "; ".join(
        f"{row['network']}, {row['stage']}: best {row['best']:.2f}, last {row['last']:.2f}" for row in rows
    )


def draw(rows: list[Row]) -> dict[str, Figure]:
    return {"curves.png": curves(rows, IMAGENET)}


EXPERIMENT = Experiment(
    "appendix_d_imagenet",
    "Appendix D: learning curves on ImageNet",
    units,
    t.measure,
    verdicts,
    draw,
    profiles=TRAINED,
    numbers=numbers,
    estimate=t.estimate,
)
