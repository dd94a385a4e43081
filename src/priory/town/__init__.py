"""Town: where the embedded data is, two years of a fictional register and their schema."""

from importlib.resources import files
from pathlib import Path

_FOLDER = Path(str(files(__name__)))

SCHEMA = _FOLDER / "town.yaml"
LAST_YEAR = _FOLDER / "register_2024.csv.gz"  # public
THIS_YEAR = _FOLDER / "register_2025.csv.gz"  # private
