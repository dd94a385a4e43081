"""Run benchmarks: `python -m bench [names] [--quick]`; without names, all of them."""

import argparse
from collections.abc import Callable
from functools import partial

from bench import (
    answers,
    counting,
    engine,
    gpu,
    growth,
    libraries,
    privacy,
    public,
    row_weights,
    samplers,
    spark,
    studio,
    wide,
)

# One line a benchmark: its name, and a function that prints its table.
BENCHMARKS: dict[str, Callable[[bool], None]] = {
    "answers": answers.run,
    "counting": counting.run,
    "engine": engine.run,
    "growth": growth.run,
    "gpu": gpu.run,
    "row weights": row_weights.run,
    "libraries": libraries.run,
    "privacy": privacy.run,
    "public": public.run,
    "samplers": samplers.run,
    "spark": spark.run,
    "studio": studio.run,
    "wide": wide.run,
}


def main() -> None:
    """Run the benchmarks that were asked for."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("names", nargs="*", default=list(BENCHMARKS), help=f"any of {', '.join(BENCHMARKS)}")
    parser.add_argument("--quick", action="store_true", help="leave out what takes the peers minutes")
    parser.add_argument(
        "--only", default="", help="of wide: fits with one of these texts in their name, between commas"
    )
    parser.add_argument("--resume", action="store_true", help="of wide: take from results/ what was measured before")
    options = parser.parse_args()
    asked = BENCHMARKS | {"wide": partial(wide.run, only=options.only, resume=options.resume)}
    for name in options.names:
        asked[name](options.quick)


if __name__ == "__main__":
    main()
