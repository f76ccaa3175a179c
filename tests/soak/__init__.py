"""Hours of damage on purpose: `make soak`, or `python -m tests.soak kills|damage --minutes 60`.

kills    SIGKILL at every fsync, rename and unlink of `train` and `duo`, before and after it, and at random
damage   every byte of a run's text files altered, sampled bytes of its tensors, every file deleted and cut short

The result of each case is the run as it would have been, bit for bit, or a sentence; a table counts them.
"""
