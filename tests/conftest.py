"""What all tests share: where the real tables are, and how hard hypothesis tries."""

import os

# Where there is a worker for each core, threads of theirs would only wait for each other; set before NumPy is imported.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from collections.abc import Generator, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from priory.errors import MissingExtra

# What `pip install .` does not bring: a test that needs one of these is skipped where it is not installed.
OPTIONAL = {
    *("adbc_driver_manager", "adbc_driver_postgresql", "adbc_driver_sqlite", "altair", "dp_accounting", "httpx"),
    *("jinja2", "numba", "opendp", "pandas", "polars", "pyarrow", "python_multipart", "starlette", "torch", "uvicorn"),
    "vl_convert",
}

# Two cores shared by the workers make single examples slow at times: a deadline would fail for that alone.
# Examples are other ones in each run. For more at once: pytest --hypothesis-profile long.
for profile, examples in {"priory": 50, "long": 1000}.items():
    settings.register_profile(
        profile, deadline=None, max_examples=examples, suppress_health_check=[HealthCheck.too_slow]
    )
settings.load_profile("priory")


# The files that take longest, longest first: begun at the end, one would keep a single core busy while others wait.
LONGEST = (
    *("test_audit", "test_every_source", "test_studio_browser", "test_docs", "test_spark", "test_studio_runs"),
    *("test_every_mechanism", "test_early_ends", "test_fit_cli", "test_studio_explore", "test_studio_attacks"),
)


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tests keep nothing in the user's folders."""
    os.environ["PRIORY_CACHE"] = str(tmp_path_factory.mktemp("cache"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--data", default=os.environ.get("PRIORY_DATA") or None, help="folder of the real tables")


def pytest_configure(config: pytest.Config) -> None:
    # Of pytest-xdist, which would begin with the files that have most tests.
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ranks = {name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path.stem, len(ranks)))


@pytest.fixture(scope="session")
def data_dir(request: pytest.FixtureRequest) -> Path:
    folder = request.config.getoption("--data")
    if not folder or not Path(folder).is_dir():
        pytest.skip("the real tables are not here: set PRIORY_DATA or --data to their folder")
    return Path(folder)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL server of the tests' own."""
    from postgres_at_hand import postgres_server

    with postgres_server() as address:
        yield address


def missing_library(error: BaseException) -> str | None:
    """The optional library for whose lack alone `error` was raised; None where it is installed."""
    cause = error.__context__ if isinstance(error, MissingExtra) else error
    name = (cause.name or "").split(".")[0] if isinstance(cause, ModuleNotFoundError) else ""
    return name if name in OPTIONAL and find_spec(name) is None else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, object, object]:
    return (yield from skipping_without_libraries())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    return (yield from skipping_without_libraries())


def skipping_without_libraries() -> Generator[None, object, object]:
    try:
        return (yield)
    except (MissingExtra, ModuleNotFoundError) as error:
        library = missing_library(error)
        if library is None:
            raise
        pytest.skip(f"{library} is not installed")
