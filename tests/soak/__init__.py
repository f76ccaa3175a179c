"""Hours of damage on purpose: `make soak`, or `python -m tests.soak kills|damage|service|fuzz --minutes 60`.

kills    SIGKILL at every fsync, rename, unlink and truncation of `train`, `duo`, `search` and `reproduce`, before and
         after it, and at random
damage   every byte of a run's text files altered, sampled bytes of its tensors, every file deleted and cut short
service  a pre-forking server with a packed model, and eight clients that check every answer
fuzz     .duo files altered by a coverage-guided fuzzer, under sanitizers, run with every instruction set

The result of each kill and damage is the run as it would have been, bit for bit, or a sentence; a table counts them.
"""
