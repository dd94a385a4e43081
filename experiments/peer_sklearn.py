"""Peer sklearn: train one classifier on a table of people and judge it on rows held out; run by scikit-learn's Python.

    python peer_sklearn.py HELD_OUT TRAINING

Prints the accuracy, the area under the curve and the share of the larger class as JSON.
"""

import csv
import json
import sys

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import OrdinalEncoder

NUMBERS = ("age", "education-num", "capital-gain", "capital-loss", "hours-per-week")
# A weight of the survey, which says nothing of a person, and what repeats education-num.
LEFT_OUT = ("fnlwgt", "education", "income")
TARGET, POSITIVE = "income", ">50K"


def table(path: str) -> tuple[list[dict[str, str]], np.ndarray]:
    """The rows and who earns more."""
    with open(path, encoding="utf-8", newline="") as file:  # noqa: PTH123 - it runs by itself
        rows = list(csv.DictReader(file))
    return rows, np.array([row[TARGET] == POSITIVE for row in rows])


def main(held_out: str, training: str) -> None:
    """Train on one, judge on the other."""
    rows, target = table(training)
    others, truth = table(held_out)
    names = [name for name in others[0] if name not in LEFT_OUT]
    words = [name for name in names if name not in NUMBERS]
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    encoder.fit([[row[name].replace("?", "") for name in words] for row in rows + others])

    def features(which: list[dict[str, str]]) -> np.ndarray:
        numbers = np.array([[float(row[name] or "nan") for name in NUMBERS] for row in which])
        return np.hstack(
            [numbers, encoder.transform([[row[name].replace("?", "") for name in words] for row in which])]
        )

    categorical = [False] * len(NUMBERS) + [True] * len(words)
    classifier = HistGradientBoostingClassifier(categorical_features=categorical, random_state=0)
    classifier.fit(features(rows), target)
    chance = classifier.predict_proba(features(others))[:, 1]
    print(
        json.dumps(
            {
                "accuracy": float(((chance > 0.5) == truth).mean()),
                "auc": float(roc_auc_score(truth, chance)),
                "larger class": float(max(truth.mean(), 1 - truth.mean())),
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
