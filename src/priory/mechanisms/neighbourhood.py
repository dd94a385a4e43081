"""Neighbourhood: public rows and rows one value away from them, so that a model can leave the public support."""

import numpy as np

from priory.model.bases import PublicRows

# Rows for each value of each attribute: enough to carry what the other attributes look like.
EACH = 150


def neighbourhood(rows: PublicRows, outside: float, rng: np.random.Generator, each: int = EACH) -> PublicRows:
    """The mixture of `rows` and of rows like them with one attribute set to any of its values, as one base.

    For every value of every attribute, `each` public rows are drawn and that attribute set to it: what no public row
    has, alone or together with others, gets support, and the other attributes keep what ties them to each other.

    Args:
        rows: the public rows.
        outside: the share that the new rows have together.
        rng: where the draws come from; they are public.
        each: how many rows for each value.
    """
    if outside == 0:
        return rows
    drawn = []
    for axis, size in enumerate(rows.domain.shape):
        moved = rows.codes[rng.choice(len(rows.codes), size * each, p=rows.shares)]
        moved[:, axis] = np.repeat(np.arange(size), each)
        drawn.append(moved)
    new = np.concatenate(drawn)
    weights = np.concatenate([(1 - outside) * rows.shares, np.full(len(new), outside / len(new))])
    return PublicRows(np.concatenate([rows.codes, new]), rows.domain, weights)
