"""Spanning tree: pairs of attributes that join all of them, chosen privately, one at a time."""

from collections.abc import Sequence

import numpy as np

from priory.model.model import Model
from priory.privacy.budget import Budget
from priory.privacy.scores import L1Error
from priory.privacy.session import Session
from priory.queries.domain import Clique
from priory.queries.query import Query

# Pairs that one choice is made among; of more, some are drawn for it.
MOST_PAIRS = 5_000


def spanning_tree(
    session: Session,
    queries: Sequence[Query],
    model: Model,
    budget: Budget,
    *,
    joined: Sequence[Clique] = (),
    most: int | None = None,
) -> list[Query]:
    """Pairs of `queries` that join all attributes, or a forest: each joins two trees, and `model` errs on it most.

    Args:
        session: where they are chosen.
        queries: the pairs, by their cells or merged values.
        model: what they are compared with.
        budget: spent on all choices alike.
        joined: pairs that are in the tree already.
        most: at most so many are chosen, the first of the tree; without it all.
    """
    pairs = [query.clique for query in queries]
    answers = model.answers(queries)
    tree_of = {name: name for pair in pairs for name in pair}
    for pair in joined:
        tree_of = _joined(tree_of, pair)
    chosen: list[Query] = []
    edges = _edges(pairs, tree_of) if most is None else min(most, _edges(pairs, tree_of))
    for number, share in enumerate(budget.split([1] * edges) if edges else ()):
        joins = [i for i, (a, b) in enumerate(pairs) if tree_of[a] != tree_of[b]]
        if len(joins) > MOST_PAIRS:
            joins = np.random.default_rng(number).choice(joins, MOST_PAIRS, replace=False).tolist()
        [pick] = session.choose([queries[i] for i in joins], [answers[i] for i in joins], L1Error(), share)
        chosen.append(queries[joins[pick.query]])
        tree_of = _joined(tree_of, pairs[joins[pick.query]])
    return chosen


def _edges(pairs: Sequence[Clique], tree_of: dict[str, str]) -> int:
    """How many of these pairs a forest can still have."""
    edges = 0
    for pair in pairs:
        edges += tree_of[pair[0]] != tree_of[pair[1]]
        tree_of = _joined(tree_of, pair)
    return edges


def _joined(tree_of: dict[str, str], pair: Clique) -> dict[str, str]:
    """The tree of each attribute after the trees of a pair became one."""
    first, second = (tree_of[name] for name in pair)
    return {name: first if tree == second else tree for name, tree in tree_of.items()}
