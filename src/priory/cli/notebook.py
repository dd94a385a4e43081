"""Notebook: the option that writes a Jupyter notebook of a release."""

import os
from pathlib import Path

from priory.cli.privacy import check_output
from priory.data.writing import written_whole
from priory.errors import OptionError
from priory.release import Release
from priory.report.notebook import notebook_text


def check_notebook(path: Path) -> None:
    """Refuse a name that no notebook has, or where none can be written."""
    if path.suffix != ".ipynb":
        raise OptionError("--notebook", f"a notebook's name ends in .ipynb; got {path}")
    check_output(path, "--notebook")


def write_notebook(path: Path, release: Release, file: Path) -> None:
    """Write the notebook of the release in `file`."""
    text = notebook_text(release, os.path.relpath(file, path.absolute().parent))
    with written_whole(path) as draft:
        draft.write_text(text, encoding="utf-8")
