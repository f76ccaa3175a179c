"""Every figure, table and appendix of the paper: what it claims, what number it prints, what recomputes it.

The experiments themselves are files of this package; here they are only named.
"""

from dataclasses import dataclass

from binaryduo.errors import unknown_name
from binaryduo.paper.registry import EXPERIMENTS
from binaryduo.paper_values import CIFAR10, TABLE2

NOT_PRINTED = "not printed"


@dataclass(frozen=True)
class Artefact:
    """One artefact of the paper.

    `experiments` are the files that recompute it; a claim is judged on the verdicts whose setting begins with
    `judged` (all of them, if none does), for which the units of work with the values of `needs` are enough. `study` is
    an experiment of ours that judges it too, if it was run. `command` is another verb of the command line that makes
    it. `foremost` begins the claim whose number stands in the overview (else it is the first), `printed` is the paper's
    one number where nothing was measured. `reduced` names results of a setting that is too small to say,
    `beside` an experiment of ours that belongs to it and judges nothing; `pending` says why nothing makes it yet.
    """

    key: str
    title: str
    claim: str
    paper: str = NOT_PRINTED
    experiments: tuple[str, ...] = ()
    judged: str = ""
    needs: tuple[tuple[str, str | int | None], ...] = ()
    study: str | None = None
    command: str | None = None
    foremost: str = ""
    printed: str = ""
    reduced: str | None = None
    beside: str | None = None
    pending: str | None = None

    @property
    def how(self) -> str:
        """The command that makes it.

        >>> find("figure5").how
        'binaryduo reproduce figure5'
        """
        return f"binaryduo reproduce {self.key}" if self.command is None else self.command


ARTEFACTS = (
    Artefact(
        "table1",
        "Table 1",
        "Other papers' networks lose far more accuracy from 2 bits to 1 bit than at any step before.",
        "cited values",
        ("table1_cited",),
    ),
    Artefact(
        "figure1a",
        "Figure 1a",
        "VGG-7 on CIFAR-10: reducing activations from 2 bits to 1 bit drops the accuracy sharply.",
        f"1 bit {CIFAR10['baseline']} (Section 6.1); the others not printed",
        ("figure1a_precision",),
    ),
    Artefact(
        "figure1b",
        "Figure 1b",
        "Width does not help: 1 bit at twice the width is much worse than 2 bits at the original width.",
        experiments=("figure1b_width",),
    ),
    Artefact(
        "figure2-left",
        "Figure 2, left",
        "Sophisticated STEs have a much smaller cumulative difference than ReLU1.",
        experiments=("figure2_stes",),
    ),
    Artefact(
        "figure2-right",
        "Figure 2, right",
        "Yet with any of them a binary network stays far below 2-bit activations.",
        experiments=("figure2_accuracy",),
    ),
    Artefact(
        "figure3",
        "Figure 3",
        "The cosine between coarse gradient and CDG is near 1 at full precision and much lower for binary than for "
        "ternary activations, the more so the farther from the output; no STE mends it.",
        experiments=("figure3_cosine",),
        judged="he",
        needs=(("init", "he"),),
    ),
    Artefact(
        "figure4",
        "Figure 4",
        "A ternary activation equals two binary ones with half the weight each: 0.7 contributes 1.1 both ways.",
        "1.1 and 1.1",
        ("figure4_activations",),
    ),
    Artefact(
        "figure5",
        "Figure 5",
        "A 3×3 layer has 9 weights, coupled 4, decoupled 8.",
        "9, 4, 8",
        ("figure5_architectures",),
    ),
    Artefact(
        "figure6-left",
        "Figure 6, left",
        "Over decay and rate: the best of coupled, decoupled and from scratch.",
        ", ".join(f"{CIFAR10[case]}" for case in ("coupled", "decoupled", "scratch")),
        command="binaryduo search --recipe vgg7-cifar10 --cases coupled,decoupled,scratch --metric best --yes",
        printed=f"decoupled {CIFAR10['decoupled']} %",
        reduced="search_grid",
        beside="coupling_choices",
    ),
    Artefact(
        "figure6-right",
        "Figure 6, right",
        "Coupled beats the baseline, decoupled and fine-tuned beats both, its topology from scratch does not.",
        "baseline {baseline}, coupled {coupled}, decoupled {decoupled}, from scratch {scratch}".format(
            **CIFAR10
        ),
        ("figure6_comparison",),
        judged="the paper's comparison",
        study="coupling_pays",
        foremost="duo beats the binary baseline",
        reduced="cifar10_budget",
    ),
    Artefact(
        "table2",
        "Table 2, Params and Comp.",
        "BinaryDuo costs no more than the baseline, in bits and in operations.",
        "AlexNet 189 Mbit, 119 M (baseline 191, 126); ResNet-18 31.9 Mbit, 164 M (33.3, 164)",
        ("table2_cost",),
        judged="at the table's precision",
        foremost="resnet18:",
    ),
    Artefact(
        "table2-accuracy",
        "Table 2, accuracies",
        "BinaryDuo on ImageNet is above the best before it.",
        "AlexNet {}, ResNet-18 {}, +sc {} (top-1 / top-5)".format(
            *(f"{line.top1} / {line.top5}" for line in TABLE2.values() if line.top1 is not None)
        ),
        ("appendix_d_imagenet",),
        printed=f"ResNet-18 {TABLE2['resnet18', 'decoupled'].top1} %",
    ),
    Artefact(
        "appendix-a",
        "Appendix A",
        "Test accuracy over weight decay and learning rate, for each precision.",
        command="binaryduo search --recipe vgg7-cifar10 --metric best "
        "--cases baseline:full,baseline:16,baseline:8,baseline:4,baseline --yes",
        reduced="search_precisions",
        beside="coupling_choices",
    ),
    Artefact(
        "appendix-b",
        "Appendix B",
        "What CDG measures: secants of the loss where its true gradient is zero.",
        "a picture without numbers",
        ("appendix_b_surface",),
    ),
    Artefact(
        "appendix-c-curves",
        "Appendix C, loss curves",
        "Few samples need a larger ε; with many a small one follows the slope.",
        experiments=("appendix_c_curves",),
    ),
    Artefact(
        "appendix-c-steps",
        "Appendix C, ε from 1e-4 to 1e-2",
        "The gap between ternary and binary is there in every layer at every ε; all STEs are alike.",
        experiments=("appendix_c_steps",),
        needs=(("levels", 2),),  # the other precisions are drawn, but no claim is about them
    ),
    Artefact(
        "algorithm1",
        "Algorithm 1",
        "How the cosines are computed: coarse gradient, CDG by ±ε on every weight, their cosine.",
        "an algorithm without numbers",
        ("algorithm1",),
    ),
    Artefact(
        "appendix-d",
        "Appendix D",
        "Learning curves of AlexNet and ResNet-18 through both stages.",
        experiments=("appendix_d_imagenet",),
    ),
    Artefact(
        "appendix-e",
        "Appendix E",
        "A coupled 2-bit network beats the baseline, but decoupling it is worse than decoupling a ternary one.",
        f"coupled {CIFAR10['coupled:4']}; decoupled not printed",
        ("appendix_e_two_bits",),
    ),
    Artefact(
        "appendix-f",
        "Appendix F",
        "BinaryDuo-Q keeps the baseline's architecture: above the baseline, below BinaryDuo.",
        f"{CIFAR10['decoupled-quad']}, +1.67 over its coupled network",
        ("appendix_f_quad",),
        foremost="BinaryDuo-Q beats the baseline",
    ),
    Artefact(
        "appendix-g",
        "Appendix G",
        "Learned intervals may improve the coupled network.",
        "future work",
        ("appendix_g_intervals",),
    ),
    Artefact(
        "appendix-h",
        "Appendix H, σ from 1e-4 to 1e-2",
        "With ESG instead of CDG the same trends show; full precision is around 0.7.",
        "around 0.7 at full precision; the others not printed",
        ("appendix_h_sigmas",),
        needs=(("levels", None),),  # run after ternary and binary; 2, 3 and 4 bits are drawn only
    ),
    Artefact(
        "appendix-h-cost",
        "Appendix H, CDG against ESG",
        "CDG may be the more reliable of the two at equal cost.",
        experiments=("appendix_h_equal_cost",),
    ),
    Artefact(
        "central-claim",
        "The central claim (Sections 4.2, 7)",
        "Accuracy goes with the cosine similarity, not with the cumulative difference.",
        experiments=("central_claim",),
    ),
    Artefact(
        "other-tasks",
        "Conclusion: other tasks",
        "The scheme may help speech recognition and object detection.",
        "future work",
        ("other_tasks",),
        foremost="duo beats the binary baseline",
    ),
)


def find(key: str) -> Artefact:
    """An artefact by its key.

    >>> find("table2").paper.startswith("AlexNet 189 Mbit")
    True
    """
    for artefact in ARTEFACTS:
        if artefact.key == key:
            return artefact
    raise unknown_name("artefact", key, [artefact.key for artefact in ARTEFACTS])


def beyond_the_paper() -> list[str]:
    """The experiments of our own, which belong to no artefact.

    >>> beyond_the_paper()[:2]
    ['interval_mismatch', 'sample_size']
    """
    listed = {name for artefact in ARTEFACTS for name in artefact.experiments}
    return [name for name in EXPERIMENTS if name not in listed]
