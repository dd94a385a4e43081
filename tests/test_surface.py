import subprocess
import sys

import priory


def test_the_public_surface_is_sorted_and_can_be_imported() -> None:
    assert list(priory.__all__) == sorted(priory.__all__)
    public = {name for name in vars(priory) if not name.startswith("_")}
    modules = {name for name in public if type(getattr(priory, name)).__name__ == "module"}
    assert public - modules == set(priory.__all__)


def test_importing_does_not_import_what_is_only_sometimes_used() -> None:
    code = "import priory, sys; print(*sorted(name.split('.')[0] for name in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {
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
    assert not heavy & set(loaded)
    assert "numpy" in loaded
