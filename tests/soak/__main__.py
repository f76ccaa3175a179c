"""`python -m tests.soak kills|damage|service|fuzz [--minutes 60]`: print a table; exit code 1 for a failure."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

VERBS = ("train", "duo", "search", "reproduce")
BAD = ("TRACEBACK", "SILENT", "DIFFERENT", "FAILED", "ORPHANS")


def kill(given: argparse.Namespace) -> bool:
    from tests.soak import kills
    from tests.soak.small_run import single_threaded

    kills.with_shim(["-m", "tests.soak", *sys.argv[1:]])
    single_threaded()
    killed: list[tuple[str, str]] = []
    told = time.monotonic()
    for where, verdict in kills.results(given.verb, given.minutes, given.most, given.seed):
        killed.append((where, verdict))
        if verdict.startswith(BAD) or time.monotonic() > told + 300:
            told = time.monotonic()
            print(f"{given.verb}, {len(killed)} so far: {where}: {verdict}", flush=True)
    print(f"{given.verb}: {len(killed)} killed\n{kills.table(killed)}")
    return not any(verdict.startswith(BAD) for _, verdict in killed)


def harm(given: argparse.Namespace) -> bool:
    from tests.soak import damage
    from tests.soak.small_run import single_threaded

    single_threaded()
    harmed = []
    for entry in damage.results(given.verb, given.minutes, given.most):
        harmed.append(entry)
        if entry[1].startswith(BAD):
            print(f"{entry[1]}: {entry[0]}: {entry[2]}", flush=True)
    print(f"{given.verb}: {len(harmed)} damages\n{damage.table(harmed)}")
    return not any(verdict.startswith(BAD) for _, verdict, _ in harmed)


def serve(given: argparse.Namespace) -> bool:
    from tests.soak import service

    served = service.run(given.minutes, given.rate)
    print(served)
    return served.good


def fuzz(given: argparse.Namespace) -> bool:
    from tests.soak import fuzzing

    with tempfile.TemporaryDirectory() as place:
        fuzzer = fuzzing.build(Path(place))
        fuzzing.write_seeds(Path(place) / "corpus")
        fuzzed = fuzzing.run(fuzzer, Path(place) / "corpus", 60 * given.minutes, Path("build/fuzz"))
    print(fuzzed)
    return not fuzzed.found


WHAT = {"kills": kill, "damage": harm, "service": serve, "fuzz": fuzz}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak", description=sys.modules["tests.soak"].__doc__
    )
    parser.add_argument("what", choices=WHAT)
    parser.add_argument("--verb", choices=VERBS, default="train", help="what is killed or damaged")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--most", type=int, help="kills or damages of each kind, at most")
    parser.add_argument("--seed", type=int, default=0, help="of the random moments")
    parser.add_argument("--rate", type=float, default=30, help="requests a second, of all clients together")
    given = parser.parse_args()
    return int(not WHAT[given.what](given))


if __name__ == "__main__":
    sys.exit(main())
