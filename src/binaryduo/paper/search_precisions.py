"""The grids of Appendix A, reduced: which weight decay and learning rate does each precision of the activations want?

The paper (VGG-7 on CIFAR-10, 13 × 10 settings, two runs or more each, 200 epochs) draws a contour plot for each
precision and prints the best of each; the text has none of these numbers.

What differs here, chosen before the run: everything that `search_grid` changes (Fashion-MNIST's embedded images, VGG-7
at an eighth of its width, two epochs, 5 × 4 settings, two runs each, ranked on 1,000 held-out images), so that its two
contours of binary networks stand beside these five. So this shows that the search works for each precision, and is no
check of the paper's numbers.

Found (best mean ± deviation over two runs of the 20 settings, last epoch, held-out images):

    full precision   82.25 ± 0.49 %   at decay 1,    rate 0.016
    4 bits           79.65 ± 0.07 %   at decay 0.1,  rate 0.064
    3 bits           78.95 ± 1.20 %   at decay 0.01, rate 0.064
    2 bits           78.20 ± 0.14 %   at decay 0.01, rate 0.064
    1 bit            75.30 ± 2.40 %   at decay 10,   rate 0.004

The largest steps are from full precision to 4 bits (2.6 points) and from 2 bits to 1 (2.9), and single settings scatter
as much. The best rate is the same for all precisions to a step of the grid; the one exception, 1 bit with much decay,
is within the scatter of its two runs of 0.1 and 0.064 (75.20 %). Ten trials ended without a finite loss, all at the
highest rate and decay.
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
