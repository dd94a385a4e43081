"""Persons in sources: how one is spelled, and which of their records count."""

import pytest

for library in ("pandas", "pyarrow"):
    pytest.importorskip(library)

import random
from pathlib import Path

import numpy as np
import pandas as pd

from priory.data.kinds import Category, Unmodelled
from priory.data.schema import Schema
from priory.data.sources.opening import open_source
from priory.errors import OptionError
from sources_at_hand import write_csv

PERSONS = Schema.of([Unmodelled.of("who", kind="id"), Category.of("x", list("abc"), other="c")], name="persons")
KEY = bytes(range(32))


def persons_frame(seed: int) -> pd.DataFrame:
    draw = random.Random(seed)  # noqa: S311 - test data
    rows = [(draw.choice(["ann", "bob", "eve", None, "zoë", "7"]), draw.choice("aabc")) for _ in range(60)]
    return pd.DataFrame(rows, columns=["who", "x"])


class Unspellable:
    def __str__(self) -> str:
        raise RuntimeError("told")

    __repr__ = __str__


@pytest.mark.parametrize("person", [10**5000, Unspellable()], ids=["long", "raises"])
def test_a_person_who_cannot_be_spelled_is_nobody(person: object) -> None:
    frame = {"who": ["a", person], "x": ["a", "b"]}
    assert open_source(frame, PERSONS, unit="who", key=KEY).count([()])[0].total == 1


@pytest.mark.parametrize("same", [[1, 1.0, "1", np.float32(1), np.int8(1)], [True, np.True_, "true"]])
def test_a_person_is_spelled_alike_whatever_the_type(same: list[object]) -> None:
    frame = {"who": same, "x": ["a"] * len(same)}
    assert open_source(frame, PERSONS, unit="who", key=KEY).count([()])[0].total == 1


@pytest.mark.parametrize("max_rows", [1, 2, 5, 100])
def test_records_of_a_person_are_bounded_alike_everywhere(max_rows: int, tmp_path: Path) -> None:
    frame = persons_frame(max_rows)
    path = write_csv(
        tmp_path / "p.csv", ["who", "x"], frame.astype(object).where(frame.notna(), None).to_numpy().tolist()
    )
    rule = {"unit": "who", "max_rows": max_rows, "key": KEY}
    here = open_source(frame, PERSONS, **rule).count([("x",)])[0].values  # type: ignore[arg-type]
    there = open_source(path, PERSONS, **rule).count([("x",)])[0].values  # type: ignore[arg-type]
    np.testing.assert_array_equal(here, there)
    sizes = frame.dropna().groupby("who").size()
    assert here.sum() == sizes.clip(upper=max_rows).sum()


def test_which_records_count_depends_on_no_other_person_and_no_order() -> None:
    frame = persons_frame(0).dropna()
    for person in ["ann", "bob"]:
        without = frame[frame.who != person]
        both = _counts(frame) - _counts(without)
        alone = _counts(frame[frame.who == person])
        np.testing.assert_array_equal(both, alone)
    np.testing.assert_array_equal(_counts(frame), _counts(frame.sample(frac=1, random_state=1)))


def test_another_key_keeps_other_records() -> None:
    frame = pd.DataFrame({"who": [f"p{i // 3}" for i in range(300)], "x": list("abc") * 100})
    assert (_counts(frame) != _counts(frame, key=bytes(32))).any()


def _counts(frame: pd.DataFrame, key: bytes = KEY) -> np.ndarray:
    return open_source(frame, PERSONS, unit="who", max_rows=2, key=key).count([("x",)])[0].values


def test_numbers_that_name_persons_are_spelled_alike() -> None:
    for who in ([1, 1, 2], [1.0, 1.0, 2.0], ["1", "1", "2"]):
        source = open_source(pd.DataFrame({"who": who, "x": ["a", "b", "c"]}), PERSONS, unit="who", key=KEY)
        expected = open_source(
            pd.DataFrame({"who": ["1", "1", "2"], "x": ["a", "b", "c"]}), PERSONS, unit="who", key=KEY
        )
        np.testing.assert_array_equal(source.count([("x",)])[0].values, expected.count([("x",)])[0].values)


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"max_rows": 2}, "max_rows"),
        ({"unit": "who", "max_rows": 0, "key": KEY}, "max_rows"),
        ({"unit": "x", "key": KEY}, "unit"),
        ({"unit": "who"}, "key"),
        ({"unit": "who", "key": b"short"}, "key"),
    ],
)
def test_bad_options_are_refused_by_name(options: dict[str, object], argument: str) -> None:
    with pytest.raises(OptionError) as caught:
        open_source(pd.DataFrame({"who": ["a"], "x": ["a"]}), PERSONS, **options)  # type: ignore[arg-type]
    assert caught.value.argument == argument
