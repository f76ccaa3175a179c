"""The learning rates that `coupling_choices` found best for each way, which every later experiment takes over."""

# VGG-7 at full width, ten epochs, 5,000 held-out images of CIFAR-10; each doubled from 5e-3 on until the accuracy fell.
BEST = {"baseline": 2e-2, "scratch": 2e-2, "duo": 1e-2}  # duo: of the coupled stage
FINETUNE = 5e-3  # of its second stage: decoupling halves the weights
