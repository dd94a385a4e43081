import importlib
import subprocess
import sys

import pytest

import priory

HEAVY = {
    "numpy",
    "scipy",
    "opendp",
    "duckdb",
    "narwhals",
    "pandas",
    "polars",
    "pyarrow",
    "numba",
    "torch",
    "altair",
    "typer",
}


def test_the_public_surface_is_sorted_and_can_be_imported() -> None:
    assert list(priory.__all__) == sorted(priory.__all__) == sorted(priory._MODULES)
    for name, module in priory._MODULES.items():
        assert getattr(priory, name) is getattr(importlib.import_module(module), name)
        assert name in dir(priory)
    with pytest.raises(AttributeError, match="nothing_here"):
        priory.nothing_here  # type: ignore[attr-defined]  # noqa: B018


def test_a_module_never_takes_the_place_of_a_function_of_its_name() -> None:
    code = (
        "import priory.estimate.estimator, priory.measure; print(callable(priory.estimate), callable(priory.measure))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.split() == ["True", "True"]


def test_importing_does_not_import_what_is_only_sometimes_used() -> None:
    code = "import priory, sys; print(*sorted(name.split('.')[0] for name in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not HEAVY & set(loaded)


def test_using_the_surface_does_not_import_what_is_only_sometimes_used() -> None:
    code = "import sys; from priory import *; print(*sorted(name.split('.')[0] for name in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not (HEAVY - {"numpy"}) & set(loaded)
    assert "numpy" in loaded
