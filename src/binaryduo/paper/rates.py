"""The learning rates that `coupling_choices` found best for each way, which every later experiment takes over."""

# VGG-7 at full width, ten epochs, 5,000 held-out images of CIFAR-10; each doubled from 5e-3 on until the accuracy fell.
ONE = {"baseline": 2e-2, "scratch": 2e-2, "duo": 1e-2}  # duo with one rate for both of its stages
# The rates that the ways are compared with: decoupling halves the weights, and fine-tuning wants half of the rate.
BEST = {**ONE, "duo": 1e-2}
FINETUNE = 5e-3
