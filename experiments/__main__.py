"""Run experiments by name, or all of them: `python -m experiments [name …]`. Each goes on where it was stopped."""

import sys
from importlib import import_module

# One line an experiment: its name is its module's.
EXPERIMENTS = (
    "figure1",
    "figure2",
    "figure3",
    "estimation_vs_mbi",
    "prior",
    "coverage",
    "fit_coverage",
    "pmw_pub",
    "biased_public",
    "ide",
    "ours_public",
    "adult_raw",
    "default_fit",
    "default_errors",
    "exact_gaussian",
    "discovery",
    "package_tables",
    "skewed_numbers",
    "forecast_laws",
    "forecasts",
)


def main(names: list[str]) -> None:
    """Run the experiments named, or all."""
    unknown = sorted(set(names) - set(EXPERIMENTS))
    if unknown:
        raise SystemExit(f"unknown experiments {unknown}; there are {list(EXPERIMENTS)}")
    for name in names or EXPERIMENTS:
        print(f"== {name}", flush=True)
        import_module(f"experiments.{name}").run()


if __name__ == "__main__":
    main(sys.argv[1:])
