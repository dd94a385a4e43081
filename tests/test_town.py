import gzip
import runpy
from pathlib import Path

import numpy as np
import pytest

from priory import town
from priory.data.public import misfits, refuse
from priory.data.schema import Schema
from priory.data.sources.opening import open_source

SCRIPT = Path(__file__).parent.parent / "tools" / "make_town.py"


@pytest.fixture(scope="module")
def schema() -> Schema:
    return Schema.load(town.SCHEMA)


def test_both_years_fit_the_schema_and_break_no_constraint(schema: Schema) -> None:
    impossible = schema.impossible()
    assert len(impossible) >= 4
    for year in (town.LAST_YEAR, town.THIS_YEAR):
        refuse(misfits(schema, year))
        source = open_source(year, schema)
        for clique, mask in impossible:
            [counts] = source.count([clique])
            assert mask.any()
            assert counts.values[mask].sum() == 0


def test_the_town_is_what_the_documentation_says(schema: Schema) -> None:
    sizes = [path.stat().st_size for path in (town.LAST_YEAR, town.THIS_YEAR, town.SCHEMA)]
    assert sum(sizes) < 2_000_000
    key = bytes(32)
    for year in (town.LAST_YEAR, town.THIS_YEAR):
        rows = open_source(year, schema).count([()])[0].total
        persons = open_source(year, schema, unit="person id", key=key).count([()])[0].total
        assert 24_000 < persons < 26_000 < rows < 28_000
    rare = open_source(town.THIS_YEAR, schema).count([("district",)])[0].values.min()
    assert 0 < rare < 200
    assert {column.kind for column in schema.columns} == {
        "id", "text", "category", "ordinal", "integer", "real", "date", "boolean",
    }  # fmt: skip


def test_last_year_is_a_good_but_not_a_perfect_prior(schema: Schema) -> None:
    before, after = (
        open_source(year, schema).count([("district",)])[0].values for year in (town.LAST_YEAR, town.THIS_YEAR)
    )
    distance = np.abs(before / before.sum() - after / after.sum()).sum() / 2
    assert 0.005 < distance < 0.1


def test_the_script_makes_the_files_again(tmp_path: Path) -> None:
    made = runpy.run_path(str(SCRIPT))
    made["main"](tmp_path)
    for path in (town.LAST_YEAR, town.THIS_YEAR):
        assert gzip.decompress((tmp_path / path.name).read_bytes()) == gzip.decompress(path.read_bytes())
