"""The grids of Appendix A, reduced: which weight decay and learning rate does each precision of the activations want?

The paper (VGG-7 on CIFAR-10, 13 × 10 settings, two runs or more each, 200 epochs) draws a contour plot for each
precision and prints the best of each; the text has none of these numbers.

What differs here, chosen before the run: everything that `search_grid` changes (Fashion-MNIST's embedded images, VGG-7
at an eighth of its width, two epochs, 5 × 4 settings, two runs each, ranked on 1,000 held-out images), so that its two
contours of binary networks stand beside these five. So this shows that the search works for each precision, and is no
check of the paper's numbers.
"""

import dataclasses

from binaryduo.paper import search_grid
from binaryduo.paper.searches import records

SEARCH = dataclasses.replace(
    search_grid.SEARCH,
    name="precisions",
    cases=("baseline:full", "baseline:16", "baseline:8", "baseline:4", "baseline"),
)

RECORDS = records("search_precisions", "The grids of Appendix A, reduced", SEARCH)
