"""What all tests share: where the real tables are, and how hard hypothesis tries."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Two cores shared by the workers make single examples slow at times: a deadline would fail for that alone.
settings.register_profile("priory", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("priory")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--data", default=os.environ.get("PRIORY_DATA") or None, help="folder of the real tables")


@pytest.fixture(scope="session")
def data_dir(request: pytest.FixtureRequest) -> Path:
    folder = request.config.getoption("--data")
    if not folder or not Path(folder).is_dir():
        pytest.skip("the real tables are not here: set PRIORY_DATA or --data to their folder")
    return Path(folder)
