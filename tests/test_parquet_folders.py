"""Parquet folders: many files as one table, and places that only DuckDB reaches."""

from pathlib import Path

import duckdb
import pytest

from priory.data.public import public_codes
from priory.data.schema import Schema
from priory.data.schema.open import read_names
from priory.data.sources.opening import open_source
from priory.data.sources.parquet_files import parquet_files
from priory.errors import DataError

SCHEMA = Schema.parse(
    """
priory: 1
name: people
columns:
  age: {kind: integer, bounds: [0, 3], other: 0}
  job: {kind: category, levels: [none, cook], other: rest, nullable: true}
  year: {kind: category, levels: [2020, 2021, 2022], other: 1, nullable: true}
  land: {kind: category, levels: [de, "ü b/c"], other: rest}
"""
)


def written(path: Path, query: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    duckdb.connect().execute(f"COPY ({query}) TO '{path}' (FORMAT parquet)")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Partitions by year and land: one of null, one without rows, one without the column job, and what is no part."""
    root = tmp_path / "people [1]*"
    written(root / "year=2020" / "land=de" / "a [x].parquet", "SELECT 1 AS age, 'cook' AS job FROM range(3)")
    written(root / "year=2020" / "land=de" / "b.parquet", "SELECT 2 AS age, 'none' AS job FROM range(2)")
    written(root / "year=2021" / "land=%C3%BC%20b%2Fc" / "a.parquet", "SELECT 3::BIGINT AS age FROM range(4)")
    written(root / "year=2022" / "land=de" / "a.pq", "SELECT 1 AS age, 'cook' AS job WHERE false")
    written(root / "year=__HIVE_DEFAULT_PARTITION__" / "land=xx" / "a.parquet", "SELECT 0 AS age, 'none' AS job")
    written(root / "_temporary" / "year=2020" / "land=de" / "a.parquet", "SELECT 0 AS age, 'draft' AS job")
    (root / "_SUCCESS").touch()
    (root / "year=2020" / ".a.parquet.crc").write_text("crc")
    return root


def counts(path: Path | str, *clique: str) -> list[int]:
    return open_source(path, SCHEMA).count([clique])[0].values.ravel().tolist()


def test_a_folder_of_partitions_is_one_table_and_its_folders_are_columns(folder: Path) -> None:
    assert counts(folder, "age") == [1, 3, 2, 4]
    assert counts(folder, "year") == [5, 4, 0, 0, 1]
    assert counts(folder, "land") == [5, 4, 1]
    assert counts(folder, "job", "year")[-1] == 0
    assert counts(folder, "job") == [3, 3, 0, 4]


def test_a_pattern_stands_for_the_files_that_fit_it(folder: Path) -> None:
    escaped = str(folder).replace("[", "[[]").replace("*", "[*]")
    assert counts(f"{escaped}/year=2020/*/*.parquet", "age") == [0, 3, 2, 0]
    assert counts(f"{escaped}/year=202*", "age") == [0, 3, 2, 4]
    with pytest.raises(DataError, match="no Parquet file fits"):
        open_source(f"{escaped}/*.csv", SCHEMA)


def test_public_rows_and_names_come_from_a_folder_too(folder: Path) -> None:
    assert len(public_codes(SCHEMA, folder / "year=2020")) == 5
    assert read_names(folder) == ["age", "job", "land", "year"]


def test_the_same_table_in_one_file_and_in_a_folder_counts_alike(folder: Path, tmp_path: Path) -> None:
    pattern = str(folder).replace("[", "[[]").replace("*", "[*]", 1) + "/year=*/*/*.p*"
    options = "hive_partitioning = true, hive_types_autocast = false, union_by_name = true"
    whole = written(tmp_path / "t.parquet", f"FROM read_parquet('{pattern}', {options})")
    assert counts(whole, "age", "job", "year", "land") == counts(folder, "age", "job", "year", "land")


def test_folders_that_are_no_table_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="is a folder without Parquet files"):
        open_source(tmp_path / "empty", SCHEMA)
    for sign in ("_delta_log/0.json", "metadata/1.metadata.json", ".hoodie/x"):
        root = tmp_path / sign.split("/")[0].strip("._")
        written(root / "a.parquet", "SELECT 1 AS age")
        (root / sign).parent.mkdir(exist_ok=True)
        (root / sign).touch()
        with pytest.raises(DataError, match="older versions"):
            open_source(root, SCHEMA)


def test_partitions_of_different_columns_are_refused_without_a_cell(tmp_path: Path) -> None:
    written(tmp_path / "year=1" / "a.parquet", "SELECT 1 AS age")
    written(tmp_path / "s3cret=1" / "a.parquet", "SELECT 1 AS age")
    with pytest.raises(DataError, match="folders name different columns") as caught:
        open_source(tmp_path, SCHEMA)
    assert "s3cret" not in str(caught.value)


PLACES = {
    "s3://bucket/people/": ("s3://bucket/people/**/*.parquet", "httpfs"),
    "s3://bucket/year=*/x.parquet": ("s3://bucket/year=*/x.parquet", "httpfs"),
    "gs://bucket/people.parquet": ("gs://bucket/people.parquet", "httpfs"),
    "https://host/x.parquet?sig=s3cret": ("https://host/x.parquet?sig=s3cret", "httpfs"),
    "https://ann:s3cret@host/x.pq": ("https://ann:s3cret@host/x.pq", "httpfs"),
    "az://box/people/*": ("az://box/people/*", "azure"),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_remote_place_is_given_to_duckdb_as_it_is_and_shown_without_secrets(place: str) -> None:
    file, extension = PLACES[place]
    for given in (place, Path(place)):
        found = parquet_files(given)
        assert found is not None
        assert (found.files, found.extension) == ((file,), extension)
        assert "s3cret" not in found.shown


@pytest.mark.parametrize("place", PLACES)
def test_a_remote_place_without_duckdbs_extension_says_how_to_install_it(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = duckdb.connect
    folder = {"extension_directory": str(tmp_path)}
    monkeypatch.setattr(duckdb, "connect", lambda name, config: connect(name, config=config | folder))
    with pytest.raises(DataError, match=rf"INSTALL {PLACES[place][1]}") as caught:
        open_source(place, SCHEMA)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("place", ["s3://ann:s3cret@bucket/x.csv", "https://host/s.csv?sig=s3cret"])
def test_only_parquet_is_read_from_afar(place: str) -> None:
    with pytest.raises(DataError, match="only Parquet") as caught:
        open_source(place, SCHEMA)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("place", ["postgresql://ann:s3cret@host/people", "mysql://u:s3@cret@h/db?password=s3cret"])
def test_a_database_given_as_a_path_is_told_where_it_belongs(place: str) -> None:
    for given in (place, Path(place)):
        with pytest.raises(DataError, match="--adbc") as caught:
            open_source(given, SCHEMA)
        assert "s3" not in str(caught.value)
