"""`python -m tests.soak kills|damage [--verb train|duo] [--minutes 60]`: print a table; exit code 1 for a failure."""

import argparse
import sys

from tests.soak import damage, kills
from tests.soak.small_run import VERBS, single_threaded

BAD = ("TRACEBACK", "SILENT", "DIFFERENT", "FAILED", "ORPHANS")


def main() -> int:
    parser = argparse.ArgumentParser(description=sys.modules["tests.soak"].__doc__)
    parser.add_argument("what", choices=["kills", "damage"])
    parser.add_argument("--verb", choices=sorted(VERBS), default="train")
    parser.add_argument("--minutes", type=float, default=60)
    given = parser.parse_args()
    single_threaded()
    bad = 0
    if given.what == "kills":
        killed = list(kills.results(given.verb, given.minutes))
        bad = sum(verdict.startswith(BAD) for _, verdict in killed)
        print(f"{given.verb}: {len(killed)} runs killed\n{kills.table(killed)}")
    else:
        harmed = list(damage.results(given.verb, given.minutes))
        for case, verdict, words in harmed:
            if verdict.startswith(BAD):
                bad += 1
                print(f"{verdict}: {case}: {words}")
        print(f"{given.verb}: {len(harmed)} damages\n{damage.table(harmed)}")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
