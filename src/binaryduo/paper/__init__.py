"""The paper's figures and tables as experiments: one file each, and what they share.

experiment    what an experiment is: units of work, how to measure one, verdicts, pictures
registry      every experiment by its name
results       where rows are kept, and how complete they are
runner        the three verbs: run, collect, plot
judging       when a claim holds
artefacts     the paper's figures, tables and appendices, and which experiments recompute them
paper_map     all of it as docs/paper_map.md
trainings     what the experiments that train networks share; ways: three ways to a binary VGG-7, at any length

`binaryduo reproduce NAME [run|collect|plot]` is the command line of all of them.
"""
