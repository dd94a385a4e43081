from pathlib import Path

import numpy as np
import pytest

from priory.data.schema import Schema
from priory.errors import DataError
from priory.queries.parts import Point
from priory.release.measured import read_measurements

SCHEMA = Schema.parse(
    """
priory: 1
name: people
columns:
  colour: {kind: category, levels: [red, green], other: rest}
  smoker: {kind: boolean, nullable: true}
"""
)


def written(folder: Path, text: str) -> Path:
    path = folder / "measurements.csv"
    path.write_text(text)
    return path


def test_rows_that_make_up_a_marginal_are_one_measurement(tmp_path: Path) -> None:
    path = written(tmp_path, "colour,value,stddev\ngreen,20.5,3\nred,10,3\nrest,-1,3\n")
    [measurement] = read_measurements(path, SCHEMA)
    assert measurement.query.is_marginal
    assert measurement.query.clique == ("colour",)
    np.testing.assert_array_equal(measurement.values, [10, 20.5, -1])
    assert measurement.stddev == 3


def test_an_empty_cell_is_summed_out(tmp_path: Path) -> None:
    labels = SCHEMA.modelled[1].labels
    rows = "".join(f",{label},{i},2\n" for i, label in enumerate(labels))
    path = written(tmp_path, "colour,smoker,value,stddev\n" + rows + ",,100,1\n")
    smoker, total = read_measurements(path, SCHEMA)
    assert smoker.query.clique == ("smoker",)
    assert total.query.clique == ()
    assert float(total.values) == 100


def test_single_cells_are_measurements_of_their_own(tmp_path: Path) -> None:
    path = written(tmp_path, "colour,value,stddev\nred,10,3\ngreen,20,3\ngreen,5,1\n")
    found = read_measurements(path, SCHEMA)
    assert [m.query.parts for m in found] == [(Point(0),), (Point(1),), (Point(1),)]
    assert [m.stddev for m in found] == [3, 3, 1]


def test_a_whole_marginal_may_have_a_standard_deviation_for_each_cell(tmp_path: Path) -> None:
    path = written(tmp_path, "colour,value,stddev\nred,10,3\ngreen,20,2\nrest,5,1\n")
    [found] = read_measurements(path, SCHEMA)
    assert found.query.is_marginal
    assert np.ravel(found.values).tolist() == [10, 20, 5]
    assert np.ravel(found.stddev).tolist() == [3, 2, 1]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("colour,value\nred,1\n", "stddev"),
        ("colour,height,value,stddev\nred,1,1,1\n", "height"),
        ("colour,value,stddev\n", "no measurements"),
        ("colour,value,stddev\nmauve,1,1\n", "line 2.*mauve"),
        ("colour,value,stddev\nred,much,1\n", "line 2.*number"),
        ("colour,value,stddev\nred,1,0\n", "above 0"),
        ("colour,value,stddev\nred,1\n", "above 0"),
        ("colour,value,stddev\nred,inf,1\n", "number"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(DataError, match=says):
        read_measurements(written(tmp_path, text), SCHEMA)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_measurements(tmp_path / "no.csv", SCHEMA)
