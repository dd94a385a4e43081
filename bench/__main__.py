"""Run benchmarks: `python -m bench [names] [--quick]`; without names, all of them."""

import argparse
from collections.abc import Callable

from bench import answers, counting, engine, gpu, growth, libraries, privacy, public, samplers, studio, wide

# One line a benchmark: its name, and a function that prints its table.
BENCHMARKS: dict[str, Callable[[bool], None]] = {
    "answers": answers.run,
    "counting": counting.run,
    "engine": engine.run,
    "growth": growth.run,
    "gpu": gpu.run,
    "libraries": libraries.run,
    "privacy": privacy.run,
    "public": public.run,
    "samplers": samplers.run,
    "studio": studio.run,
    "wide": wide.run,
}


def main() -> None:
    """Run the benchmarks that were asked for."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("names", nargs="*", default=list(BENCHMARKS), help=f"any of {', '.join(BENCHMARKS)}")
    parser.add_argument("--quick", action="store_true", help="leave out what takes the peers minutes")
    options = parser.parse_args()
    for name in options.names:
        BENCHMARKS[name](options.quick)


if __name__ == "__main__":
    main()
