import hashlib
import io
import json
import math
import pickle
import tracemalloc
import zipfile
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from houses import DOMAIN, curated, random_rows
from priory.app.registry import MECHANISMS
from priory.data.schema import Schema
from priory.errors import ReleaseError
from priory.measure import Measurement, measure
from priory.privacy import encoding
from priory.privacy.budget import Budget
from priory.privacy.noise import Gaussian
from priory.privacy.randomness import Replay
from priory.privacy.statement import Statement
from priory.queries.domain import Domain
from priory.queries.parts import Identity, Matrix, Mean, Moments, Point, Prefix, Range, Recode, Set, Total
from priory.queries.query import Query
from priory.release import Release, archive
from strategies import queries

HALF = Budget.approximate(1, 1e-9)
EVERY_PART = [
    Query.marginal(DOMAIN, ("age", "sex")),
    Query.marginal(DOMAIN, ()),
    Query.product(DOMAIN, {"age": Prefix(), "sex": Total()}),
    Query.product(DOMAIN, {"age": Point(2), "sex": Set([1]), "marital-status": Recode([0, 1, 1])}),
    Query.product(DOMAIN, {"age": Range(1, 2), "sex": Matrix([[1, -1], [0, 3]]), "marital-status": Identity()}),
    Query.product(DOMAIN, {"age": Mean([0.1, 1 / 3, 2, 1e-17])}),
    Query.product(DOMAIN, {"age": Moments([0.5, 1, 2, 3], 2), "sex": Matrix([[0.1, 0.7]])}),
]


def a_release() -> Release:
    with curated(HALF, random_rows()) as curator:
        measurements = measure(curator, EVERY_PART, HALF)
        return Release(DOMAIN, tuple(measurements), curator.statement("test"))


def rewritten(path: Path, name: str, data: bytes, size: object = None) -> Path:
    """The file with one entry replaced and every checksum made anew, as a forger would."""
    with zipfile.ZipFile(path) as old:
        files = {entry: old.read(entry) for entry in old.namelist()}
    manifest = json.loads(files.pop(archive.MANIFEST))
    files[name] = data
    manifest["files"][name] = {
        "size": len(data) if size is None else size,
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    described = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for entry, content in {archive.MANIFEST: described, **files}.items():
            new.writestr(entry, content)
        new.comment = hashlib.sha256(described).hexdigest().encode()
    return path


def test_a_release_that_is_packed_very_well_is_written_so_that_it_opens(tmp_path: Path) -> None:
    zeros = bytes(archive.MOST_BYTES + 2**24)
    replace(a_release(), sections={"notes": {"zeros": zeros}}).save(tmp_path / "a.priory")
    assert Release.load(tmp_path / "a.priory").sections["notes"]["zeros"] == zeros


def test_a_section_of_many_times_the_size_of_the_file_is_not_unpacked(saved: Path) -> None:
    rewritten(saved, "notes/theta.npy", bytes(archive.MOST_BYTES + 2**24))
    with pytest.raises(ReleaseError, match="would unpack to more than"):
        Release.load(saved)


def test_parts_of_many_numbers_come_back_as_they_were(tmp_path: Path) -> None:
    domain = Domain.of({"a": 150_000})
    merged = Query.product(domain, {"a": Recode([i % 7 for i in range(150_000)])})
    subset = Query.product(domain, {"a": Set(range(120_000))})
    told = tuple(Measurement(query, np.ones(query.shape), 1.0) for query in (merged, subset))
    Release(domain, told, a_statement()).save(tmp_path / "a.priory")
    assert [m.query for m in Release.load(tmp_path / "a.priory").measurements] == [merged, subset]


def test_two_measurements_do_not_share_an_array(saved: Path) -> None:
    with zipfile.ZipFile(saved) as file:
        described = json.loads(file.read("measurements/measurements.json"))
    described.append(described[0])
    with pytest.raises(ReleaseError):
        Release.load(rewritten(saved, "measurements/measurements.json", json.dumps(described).encode()))


def test_a_negative_size_does_not_unpack_a_bomb(saved: Path) -> None:
    rewritten(saved, "notes/theta.npy", bytes(2**28), size=-2)
    tracemalloc.start()
    with pytest.raises(ReleaseError):
        Release.load(saved)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**27


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("spent", "1e999999999"),
        ("spent", "1e400"),
        ("spent", "-1"),
        ("spent", 1.5),
        ("ledger", "elsewhere"),
        ("ledger", []),
        ("mechanism", None),
        ("dataset", "\ud800"),
        ("version", 1),
    ],
)
def test_a_statement_that_could_not_be_shown_is_refused(saved: Path, field: str, value: object) -> None:
    name = "statement/statement.json"
    with zipfile.ZipFile(saved) as file:
        described = json.loads(file.read(name))
    rewritten(saved, name, json.dumps({**described, field: value}).encode())
    with pytest.raises(ReleaseError):
        Release.load(saved)


@pytest.mark.parametrize(
    "header",
    ["'shape': (99999999999999,), }", "'shape': (4L, 2L), }", "'shape': (4, 2), ", "'shape': (((", "-" * 9000],
)
def test_an_array_with_a_forged_header_is_refused(saved: Path, header: str) -> None:
    text = f"{{'descr': '<i8', 'fortran_order': False, {header}\n".encode()
    rewritten(saved, "measurements/0.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(64))
    with pytest.raises(ReleaseError):
        Release.load(saved)


@given(st.lists(st.integers(0, 3), max_size=4), st.sampled_from([np.int64, np.float64]))
def test_arrays_come_back_as_they_were(shape: list[int], dtype: type) -> None:
    array: Any = np.arange(math.prod(shape)).astype(dtype).reshape(shape)
    back = encoding.array_of(encoding.array_bytes(array))
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(back, array)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "people.priory"
    replace(a_release(), sections={"notes": {"theta.npy": encoding.array_bytes(np.arange(3.0))}}).save(path)
    return path


def test_a_release_is_the_same_after_saving_and_loading(tmp_path: Path) -> None:
    release = a_release().with_schema(Schema.coded(dict(zip(DOMAIN, DOMAIN.shape, strict=True))))
    release.save(tmp_path / "a.priory")
    again = Release.load(tmp_path / "a.priory")
    assert again.domain == release.domain
    assert again.statement == release.statement
    assert again.schema == release.schema
    assert [m.query for m in again.measurements] == [m.query for m in release.measurements]
    for one, two in zip(release.measurements, again.measurements, strict=True):
        np.testing.assert_array_equal(one.values, two.values)
        assert (one.values.dtype, one.stddev, one.noise) == (two.values.dtype, two.stddev, two.noise)


@settings(max_examples=30)
@given(queries(max_cells=60), st.floats(0, 1e9))
def test_any_query_survives_the_file(tmp_path_factory: pytest.TempPathFactory, query: Query, stddev: float) -> None:
    path = tmp_path_factory.mktemp("release") / "a.priory"
    measurement = Measurement(query, np.ones(query.shape), stddev, Gaussian(Fraction(3, 2)))
    Release(query.domain, (measurement,), a_statement()).save(path)
    (again,) = Release.load(path).measurements
    assert again.query == query
    assert again.stddev == stddev


def test_a_noise_scale_for_each_cell_survives_the_file(tmp_path: Path) -> None:
    query = Query.marginal(DOMAIN, DOMAIN.attributes[:2])
    stddevs = np.random.default_rng(0).uniform(1, 9, query.shape)
    Release(DOMAIN, (Measurement.of(query, np.ones(query.shape), stddevs),), a_statement()).save(tmp_path / "a")
    (again,) = Release.load(tmp_path / "a").measurements
    np.testing.assert_array_equal(again.stddev, stddevs)


def a_statement() -> Statement:
    with curated(HALF) as curator:
        return curator.statement("test")


def test_the_same_release_gives_the_same_bytes(tmp_path: Path) -> None:
    release = a_release()
    for name in ("a", "b"):
        release.save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_the_statement_is_readable_in_the_file_without_priory(saved: Path) -> None:
    with zipfile.ZipFile(saved) as file:
        statement = json.loads(file.read("statement/statement.json"))
    assert statement["is_private"] is True
    assert statement["budget"]["relation"] == "add-remove"
    assert any(line.startswith("promise: ε = 1, δ = 1e-09") for line in statement["words"])


def test_a_release_made_with_test_randomness_says_so_everywhere(tmp_path: Path) -> None:
    with curated(HALF, randomness=Replay()) as curator:
        release = MECHANISMS["independent"].build(DOMAIN).run(curator, HALF)
    release.save(tmp_path / "a.priory")
    again = Release.load(tmp_path / "a.priory")
    for text in (repr(again), str(again), str(again.statement)):
        assert "NOT PRIVATE" in text
    with zipfile.ZipFile(tmp_path / "a.priory") as file:
        assert b"NOT PRIVATE" in file.read("statement/statement.json")


def test_unknown_optional_sections_are_carried_along(saved: Path, tmp_path: Path) -> None:
    release = Release.load(saved)
    assert set(release.sections) == {"notes"}
    release.save(tmp_path / "again.priory")
    assert (tmp_path / "again.priory").read_bytes() == saved.read_bytes()


def test_a_schema_of_other_attributes_is_refused() -> None:
    with pytest.raises(ReleaseError, match="attributes"):
        a_release().with_schema(Schema.coded({"age": 5}))


def repacked(path: Path, change: Callable[[dict[str, bytes]], None], *, seal: bool) -> Path:
    """The archive with its files changed; with `seal`, all checksums are computed anew."""
    with zipfile.ZipFile(path) as file:
        files = {name: file.read(name) for name in file.namelist()}
        comment = file.comment
    change(files)
    if seal:
        manifest = json.loads(files["manifest.json"])
        manifest["files"] = {
            name: {"size": len(data), "sha256": archive._digest(data)}
            for name, data in files.items()
            if name != "manifest.json"
        }
        files["manifest.json"] = archive.json_bytes(manifest)
        comment = archive._digest(files["manifest.json"]).encode()
    with zipfile.ZipFile(path, "w") as file:
        for name, data in files.items():
            file.writestr(name, data)
        file.comment = comment
    return path


def edit(name: str, change: Callable[[Any], None]) -> Callable[[dict[str, bytes]], None]:
    def run(files: dict[str, bytes]) -> None:
        described = json.loads(files[name])
        change(described)
        files[name] = json.dumps(described).encode()

    return run


STATEMENT = "statement/statement.json"
MEASURED = "measurements/measurements.json"


@pytest.mark.parametrize(
    "change",
    [
        edit(STATEMENT, lambda s: s.update(is_private=True, mechanism="better")),
        edit("manifest.json", lambda m: m.update(version=1.0)),
        lambda files: files.update({"extra.txt": b"hello"}),
        lambda files: files.pop(MEASURED),
        lambda files: files.update({"notes/theta.npy": files["notes/theta.npy"][:-1] + b"\x00"}),
    ],
)
def test_a_changed_file_is_refused(saved: Path, change: Callable[[dict[str, bytes]], None]) -> None:
    with pytest.raises(ReleaseError, match=r"original file|damaged"):
        Release.load(repacked(saved, change, seal=False))


@pytest.mark.parametrize(
    "change",
    [
        edit(STATEMENT, lambda s: s.pop("budget")),
        edit(STATEMENT, lambda s: s["budget"].update(amount="1/0")),
        edit(STATEMENT, lambda s: s["budget"].update(relation="swap")),
        edit(MEASURED, lambda m: m[0].update(clique=["agee", "sex"])),
        edit(MEASURED, lambda m: m[0]["parts"][0].update(part="os.system")),
        edit(MEASURED, lambda m: m[0].update(values="no.npy")),
        edit(MEASURED, lambda m: m[0].update(stddev=-1)),
        edit(MEASURED, lambda m: m[0].update(stddev="NaN")),
        edit(MEASURED, lambda m: m[0].update(noise={"kind": "none", "scale": "1"})),
        edit(MEASURED, lambda m: m[3]["parts"][0].update(code=99)),
        edit("domain/domain.json", lambda d: d.update(shape=[4, 2])),
        edit("domain/domain.json", lambda d: d.update(shape=[4, 2, -3])),
        lambda files: files.update({"measurements/0.npy": b"\x93NUMPY\x01\x00"}),
        lambda files: files.update({"measurements/0.npy": encoding.array_bytes(np.zeros(3, dtype=np.int64))}),
        lambda files: files.update({STATEMENT: b"[" * 100_000}),
        lambda files: files.update({STATEMENT: b"\xff\xfe"}),
        lambda files: files.pop("domain/domain.json"),
    ],
)
def test_a_file_whose_parts_do_not_fit_is_refused_even_with_good_checksums(
    saved: Path, change: Callable[[dict[str, bytes]], None]
) -> None:
    with pytest.raises(ReleaseError):
        Release.load(repacked(saved, change, seal=True))


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("a pickle in a release was executed",))


def test_a_pickle_in_a_release_is_never_executed(saved: Path) -> None:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.array([Bomb()], dtype=object), allow_pickle=True)
    for poison in (buffer.getvalue(), pickle.dumps(Bomb())):
        path = repacked(saved, lambda files, poison=poison: files.update({"measurements/0.npy": poison}), seal=True)  # type: ignore[misc]
        with pytest.raises(ReleaseError):
            Release.load(path)


def test_a_newer_file_is_refused_with_what_to_do(saved: Path) -> None:
    path = repacked(saved, edit("manifest.json", lambda m: m.update(version=2)), seal=True)
    with pytest.raises(ReleaseError, match="upgrade priory"):
        Release.load(path)


@pytest.mark.parametrize("version", [0, -1, "1", 1.5, None])
def test_a_version_that_is_none_is_refused(saved: Path, version: object) -> None:
    path = repacked(saved, edit("manifest.json", lambda m: m.update(version=version)), seal=True)
    with pytest.raises(ReleaseError, match="not a release"):
        Release.load(path)


def test_a_required_section_that_is_unknown_is_refused(saved: Path) -> None:
    def require(manifest: Any) -> None:
        manifest["sections"]["notes"]["required"] = True

    with pytest.raises(ReleaseError, match="upgrade priory"):
        Release.load(repacked(saved, edit("manifest.json", require), seal=True))


def test_every_cut_and_every_flipped_byte_is_an_error_or_the_same_release(saved: Path) -> None:
    whole = saved.read_bytes()
    original = Release.load(saved)
    for length in range(0, len(whole), 101):
        saved.write_bytes(whole[:length])
        with pytest.raises(ReleaseError):
            Release.load(saved)
    for place in range(0, len(whole), 37):
        saved.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            again = Release.load(saved)
        except ReleaseError:
            continue
        # Dates and attributes of the zip's entries are read by nobody.
        assert again.statement == original.statement
        assert all((a.values == b.values).all() for a, b in zip(again.measurements, original.measurements, strict=True))


def test_a_file_that_unpacks_to_too_much_is_refused_before_it_is_unpacked(saved: Path) -> None:
    def grow(manifest: Any) -> None:
        manifest["files"]["measurements/0.npy"]["size"] = 2**40

    def run(files: dict[str, bytes]) -> None:
        edit("manifest.json", grow)(files)

    with zipfile.ZipFile(saved) as file:
        files = {name: file.read(name) for name in file.namelist()}
    run(files)
    with zipfile.ZipFile(saved, "w") as file:
        for name, data in files.items():
            file.writestr(name, data)
        file.comment = archive._digest(files["manifest.json"]).encode()
    with pytest.raises(ReleaseError, match="unpack"):
        Release.load(saved)


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="does not exist"):
        Release.load(tmp_path / "no.priory")
    text = tmp_path / "text.priory"
    text.write_text("hello")
    with pytest.raises(ReleaseError, match="not a release"):
        Release.load(text)
    empty = tmp_path / "zip.priory"
    with zipfile.ZipFile(empty, "w") as file:
        file.writestr("manifest.json", "{}")
    with pytest.raises(ReleaseError):
        Release.load(empty)
    with pytest.raises(ReleaseError):
        Release.load(tmp_path)


def test_saving_where_nothing_can_be_written_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="cannot be written"):
        a_release().save(tmp_path / "no" / "folder.priory")
