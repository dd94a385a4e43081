"""Notebook: a Jupyter notebook that opens a release, asks it, draws it and samples it."""

import json

from priory.release import Release


def notebook_text(release: Release, file: str, *, made: str = "") -> str:
    """The notebook of the release in `file`, in the format that Jupyter has read since 2015.

    Args:
        release: the release.
        file: its path, as seen from the notebook.
        made: how it was made, in Markdown; no cell does it again, for that would be paid for again.
    """
    cells = [_cell(kind, text) for kind, text in _contents(release, file, made)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 4}
    return json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"


def _contents(release: Release, file: str, made: str) -> list[tuple[str, str]]:
    columns = release.columns.modelled
    first, *others = columns
    numeric = next((column for column in columns if column.is_numeric), None)
    pair = [first.name, *(column.name for column in others[:1])]
    asked = f"release.marginal({first.name!r})" if numeric is None else f"release.mean({numeric.name!r})"
    return [
        ("markdown", "# A release under differential privacy\n\nNothing here reads a private row, or spends anything."),
        *([("markdown", f"## How it was made\n\n{made}")] if made else []),
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
