"""Notebook: a Jupyter notebook that opens a release, asks it, draws it and samples it."""

import json
import os
from pathlib import Path

from priory.cli.privacy import check_output
from priory.data.writing import written_whole
from priory.errors import OptionError
from priory.release import Release


def check_notebook(path: Path) -> None:
    """Refuse a name that no notebook has, or where none can be written."""
    if path.suffix != ".ipynb":
        raise OptionError("--notebook", f"a notebook's name ends in .ipynb; got {path}")
    check_output(path, "--notebook")


def write_notebook(path: Path, release: Release, file: Path) -> None:
    """Write the notebook of the release in `file`, in the format that Jupyter has read since 2015."""
    cells = [_cell(kind, text) for kind, text in _contents(release, os.path.relpath(file, path.absolute().parent))]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 4}
    with written_whole(path) as draft:
        draft.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _contents(release: Release, file: str) -> list[tuple[str, str]]:
    columns = release.columns.modelled
    first, *others = columns
    numeric = next((column for column in columns if column.is_numeric), None)
    pair = [first.name, *(column.name for column in others[:1])]
    asked = f"release.marginal({first.name!r})" if numeric is None else f"release.mean({numeric.name!r})"
    return [
        ("markdown", "# A release under differential privacy\n\nNothing here reads a private row, or spends anything."),
        ("code", f"import priory as pr\n\nrelease = pr.load({file!r})\nrelease"),
        ("markdown", "## Is it any good?\n\nWhich columns and pairs are above the noise."),
        ("code", "release.quality()"),
        ("markdown", "## Ask it\n\nEvery answer has an interval, and says where it comes from."),
        ("code", asked),
        ("code", f"release.marginal({', '.join(map(repr, pair))})"),
        ("markdown", "## Look at it\n\nPictures need `pip install 'priory[report]'`."),
        ("code", f"release.plot({first.name!r})"),
        *([("code", f"release.plot({', '.join(map(repr, pair))})")] if others else []),
        ("markdown", "## Synthetic rows"),
        ("code", "rows = release.sample(1000, seed=0)\nrows"),
    ]


def _cell(kind: str, text: str) -> dict[str, object]:
    cell: dict[str, object] = {"cell_type": kind, "metadata": {}, "source": text.splitlines(keepends=True)}
    return cell if kind == "markdown" else {**cell, "execution_count": None, "outputs": []}
