"""What a run was answered is on disk before it is used, and a release can be made of as much as there is."""

import os
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from houses import DOMAIN, Rows, random_rows
from priory.app.fit import fit
from priory.app.recovery import EARLY, OTHERWISE, recover
from priory.app.registry import MECHANISMS
from priory.data.schema import Schema
from priory.errors import OptionError, ReleaseError
from priory.mechanisms.aim import AIM
from priory.mechanisms.best_mixture import BestMixture
from priory.mechanisms.hdmm.hdmm import HDMM
from priory.mechanisms.ide.prior_update import PriorUpdate
from priory.mechanisms.independent import Independent
from priory.model.bases import PublicRows
from priory.privacy.budget import Budget
from priory.privacy.functionals import NoisyNumber
from priory.privacy.journal import Answered, Entry, Numbered, Paid, Picked, PublicTotal, Transcript
from priory.privacy.measurement import Measurement
from priory.privacy.noise import Laplace
from priory.privacy.outputs import partial_path
from priory.privacy.randomness import Replay
from priory.privacy.record_file import MAGIC, RESERVE, RecordFile, is_record_file, read_records
from priory.privacy.recorder import _decode_entry, _encode_entry
from priory.privacy.scores import Pick
from priory.privacy.session import Session
from priory.queries.parts import Matrix, Point, Recode
from priory.queries.query import Query
from priory.queries.workload import Workload
from priory.release import Release, load
from priory.release.partial import Partial

SCHEMA = Schema.coded(dict(zip(DOMAIN.attributes, DOMAIN.shape, strict=True)), name="people")
PUBLIC = {name: random_rows(60, seed=9).rows[:, i].tolist() for i, name in enumerate(DOMAIN)}


class Lost(Exception):
    """The end of a run that was to write its release."""


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 2)), min_size=1, max_size=20))
def test_counted_public_rows_are_those_that_are_written_out(rows: list[tuple[int, ...]]) -> None:
    codes, counts = np.unique(np.array(rows), axis=0, return_counts=True)
    counted, written = PublicRows.counted(codes, counts, DOMAIN), PublicRows(np.array(rows), DOMAIN)
    np.testing.assert_array_equal(counted.codes, written.codes)
    np.testing.assert_allclose(counted.shares, written.shares, rtol=1e-12)
    assert counted.records == pytest.approx(written.records, rel=1e-12)


def ended_early(monkeypatch: pytest.MonkeyPatch, path: Path, source: Rows | None = None, **options: Any) -> Partial:
    """A run that was answered everything and ended before its release was written."""

    def lose(*_: object) -> None:
        raise Lost

    with monkeypatch.context() as patch:
        patch.setattr(Release, "save", lose)
        with pytest.raises(Lost) as caught:
            fit(source or random_rows(), SCHEMA, output=path, randomness=Replay(seed=1), **options)
    assert caught.value.spent.partial == str(partial_path(path))  # type: ignore[attr-defined]
    return Partial.load(partial_path(path))


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("name", list(MECHANISMS))
def test_a_run_that_ends_before_its_release_is_written_leads_to_the_same_release(
    name: str, relation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    public = PUBLIC if MECHANISMS[name].with_public is not None else None
    options: dict[str, Any] = {"rho": "1/2", "mechanism": name, "relation": relation, "public": public}
    partial = ended_early(monkeypatch, tmp_path / "a.priory", **options)
    found = recover(tmp_path / "a.priory.partial")
    expected = fit(random_rows(), SCHEMA, randomness=Replay(seed=1), **options)
    noisy = [m for m in expected.measurements if not m.is_public]
    again = [m for m in found.measurements if not m.is_public]
    assert [m.query for m in again] == [m.query for m in noisy]
    for one, two in zip(again, noisy, strict=True):
        np.testing.assert_array_equal(one.values, two.values)
        assert (one.noise, one.stddev) == (two.noise, two.stddev)
    assert found.statement == replace(expected.statement, mechanism=f"{name}, {EARLY}")
    assert partial.transcript.spent == expected.statement.spent
    assert found.schema == SCHEMA
    for attribute in DOMAIN:
        before, after = (release.model.project((attribute,)).values for release in (expected, found))
        np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("name", list(MECHANISMS))
def test_a_release_can_be_made_whenever_one_batch_was_answered(
    name: str, relation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partial = ended_early(monkeypatch, tmp_path / "a.priory", rho="1/2", mechanism=name, relation=relation)
    entries = partial.transcript.entries
    starts = [i for i, entry in enumerate(entries, start=1) if isinstance(entry, Answered | Picked)]
    assert starts
    for end in {starts[0], starts[len(starts) // 2], starts[-1]}:
        transcript = Transcript(entries[:end])
        cut = Partial(partial.job, replace(partial.statement, spent=transcript.spent), transcript)
        release = recover(cut)
        assert release.statement.mechanism == f"{name}, {EARLY}"
        assert release.statement.budget.amount == Fraction(1, 2)
        assert 0 < release.statement.spent <= Fraction(1, 2)
        assert release.model.total >= 1
        assert len(release.sample(5, seed=0)) == 5
        release.save(tmp_path / f"{end}.priory")
        assert load(tmp_path / f"{end}.priory").statement == release.statement


def test_a_mixture_can_be_made_whenever_one_batch_was_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"rho": 5, "mechanism": "prior", "public": PUBLIC}
    partial = ended_early(monkeypatch, tmp_path / "a.priory", **options)
    entries = partial.transcript.entries
    ends = [i for i, entry in enumerate(entries, start=1) if isinstance(entry, Answered)]
    assert len(ends) > 2
    for end in ends:
        transcript = Transcript(entries[:end])
        release = recover(Partial(partial.job, replace(partial.statement, spent=transcript.spent), transcript))
        assert release.statement.mechanism == f"weighing, {EARLY}"
        assert len(release.sample(5, seed=0)) == 5


@pytest.mark.parametrize("name", ["independent", "hdmm", "prior", "dualquery", "pmw-pub"])
def test_answers_finer_than_counts_and_other_currencies_survive(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"epsilon": 1, "delta": "1e-6", "mechanism": name}
    partial = ended_early(monkeypatch, tmp_path / "a.priory", **options)
    expected = fit(random_rows(), SCHEMA, randomness=Replay(seed=1), **options)
    assert partial.statement.budget == expected.statement.budget
    found = recover(partial)
    for one, two in zip(found.measurements, expected.measurements, strict=True):
        np.testing.assert_array_equal(one.values, two.values)
        assert one.noise == two.noise
    np.testing.assert_allclose(found.model.project(("age",)).values, expected.model.project(("age",)).values)


def test_custom_settings_are_given_again_or_the_answers_alone_are_modelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    custom = AIM(rounds=Fraction(1))
    partial = ended_early(monkeypatch, tmp_path / "a.priory", rho="1/2", mechanism=custom)
    assert recover(partial).statement.mechanism == f"aim, {EARLY}, {OTHERWISE}"
    assert recover(partial, mechanism=custom).statement.mechanism == f"aim, {EARLY}"
    with pytest.raises(ReleaseError, match="other settings; give the mechanism as it was, or to model its"):
        recover(partial, mechanism=AIM(rounds=Fraction(2)))


def test_answers_to_other_queries_are_refused_and_can_be_modelled_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partial = ended_early(monkeypatch, tmp_path / "a.priory", rho="1/2", mechanism="mst")
    *most, paid, last = partial.transcript.entries
    assert isinstance(last, Answered)
    changed = replace(partial, transcript=Transcript((*most, paid, Answered(last.measurements[::-1]))))
    with pytest.raises(ReleaseError, match="result 4 of the run does not answer what the mechanism asks there"):
        recover(changed)
    with pytest.raises(ReleaseError, match="which may ask otherwise"):
        recover(replace(partial, statement=replace(partial.statement, version="0.1")))
    release = recover(changed, alone=True)
    assert release.statement.mechanism == f"mst, {EARLY}, {OTHERWISE}"
    assert len(release.measurements) == len(partial.measurements)


def test_a_mechanism_that_does_not_say_where_it_asks_is_modelled_from_its_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Twice:
        def run(self, session: Session, budget: Budget) -> Release:
            first, second = budget.split([1, 1])
            Independent().run(session, first)
            return Independent().run(session, second)

    partial = ended_early(monkeypatch, tmp_path / "a.priory", rho="1/2", mechanism=Twice())
    assert recover(partial, mechanism=Twice()).statement.mechanism == f"twice, {EARLY}"
    half = replace(partial, transcript=Transcript(partial.transcript.entries[:2]))
    release = recover(half, mechanism=Twice())
    assert release.statement.mechanism == f"twice, {EARLY}, {OTHERWISE}"
    assert len(release.measurements) == 3


def test_real_queries_of_a_table_with_many_rows_are_asked_again_on_the_same_lattice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ages = Workload.of([Query.product(DOMAIN, {"age": Matrix(np.linspace(0, 1, 12).reshape(3, 4))})])
    source = random_rows()
    source.row_limit = 2**50
    options: dict[str, Any] = {"rho": "1/2", "mechanism": HDMM(ages, kind="equal"), "source": source}
    partial = ended_early(monkeypatch, tmp_path / "a.priory", **options)
    assert partial.job.row_limit == 2**50
    assert recover(partial, mechanism=options["mechanism"]).statement.mechanism == f"hdmm, {EARLY}"


def test_a_check_of_public_data_keeps_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    custom = BestMixture(public=PublicRows(random_rows(3).rows, DOMAIN))
    partial = ended_early(monkeypatch, tmp_path / "a.priory", rho="1/2", mechanism=custom)
    found = recover(partial, mechanism=custom)
    expected = fit(random_rows(), SCHEMA, rho="1/2", mechanism=custom, randomness=Replay(seed=1))
    assert found.public_check == expected.public_check


def test_groups_workloads_and_public_rows_are_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"rho": "1/2", "public": PUBLIC, "by": [["sex"]], "mechanism": "prior-update"}
    found = recover(ended_early(monkeypatch, tmp_path / "a.priory", **options))
    expected = fit(random_rows(), SCHEMA, randomness=Replay(seed=1), **options)
    np.testing.assert_array_equal(
        found.model.project(("sex", "age")).values, expected.model.project(("sex", "age")).values
    )
    workload = Workload.marginals(DOMAIN, 1)
    partial = ended_early(monkeypatch, tmp_path / "b.priory", rho="1/2", mechanism="pmw-pub", workload=workload)
    assert partial.job.workload == workload
    assert recover(partial).statement.mechanism == f"pmw-pub, {EARLY}"


def test_raking_that_ended_early_is_modelled_from_its_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs the answers of every level."""
    custom = PriorUpdate(public=PublicRows(random_rows(50).rows, DOMAIN), by=(("sex",),), way="raking")
    partial = ended_early(monkeypatch, tmp_path / "a.priory", rho="1/2", mechanism=custom)
    assert recover(partial, mechanism=custom).statement.mechanism == f"priorupdate, {EARLY}"
    cut = replace(partial, transcript=Transcript(partial.transcript.entries[:2]))
    assert recover(cut, mechanism=custom).statement.mechanism == f"priorupdate, {EARLY}, {OTHERWISE}"


def test_a_partial_file_is_no_release_and_says_what_makes_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended_early(monkeypatch, tmp_path / "a.priory", rho="1/2", mechanism="independent")
    with pytest.raises(ReleaseError, match="priory estimate"):
        load(tmp_path / "a.priory.partial")
    with pytest.raises(OptionError, match="priory estimate"):
        fit(random_rows(), SCHEMA, rho="1/2", mechanism="independent", output=tmp_path / "a.priory")
    assert recover(tmp_path / "a.priory.partial").measurements


def test_a_run_that_ends_well_leaves_the_release_and_nothing_else(tmp_path: Path) -> None:
    release = fit(random_rows(), SCHEMA, rho="1/2", output=tmp_path / "a.priory")
    assert [path.name for path in tmp_path.iterdir()] == ["a.priory"]
    assert load(tmp_path / "a.priory").statement == release.statement


def test_a_partial_file_holds_no_private_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under add-remove the number of rows is secret: the file of a run with noise has it nowhere."""
    ended_early(monkeypatch, tmp_path / "a.priory", random_rows(3571), rho="1/1000", mechanism="mwem")
    data = (tmp_path / "a.priory.partial").read_bytes()
    assert np.int64(3571).tobytes() not in data
    assert b"3571" not in data


numbers = st.integers(-(2**40), 2**40)
entries = st.one_of(
    st.builds(PublicTotal, st.integers(0, 2**40)),
    st.builds(Paid, st.fractions(0, 100)),
    st.builds(
        Picked,
        st.lists(
            st.builds(Pick, st.integers(0, 99), st.none() | st.integers(0, 99), is_complement=st.booleans()), max_size=4
        ).map(tuple),
        st.fractions(0, 10),
        st.lists(st.text("0123456789abcdef", min_size=16, max_size=16), max_size=4).map(tuple),
    ),
    st.builds(
        lambda value, scale: Numbered(NoisyNumber(value / 1024, Laplace(scale).stddev / 1024, Laplace(scale))),
        numbers,
        st.fractions("1/7", 100),
    ),
    st.builds(
        lambda values, scale: Answered(
            (
                Measurement(Query.marginal(DOMAIN, "age"), np.array(values), Laplace(scale).stddev, Laplace(scale)),
                Measurement(
                    Query.product(DOMAIN, {"age": Recode([0, 0, 1, 1]), "sex": Point(1)}), np.array([[1], [2]]), 2.0
                ),
                Measurement(Query.product(DOMAIN, {"sex": Matrix(np.eye(2))}), np.array([3, 4]), np.array([1.0, 2.0])),
            )
        ),
        st.lists(numbers, min_size=4, max_size=4),
        st.fractions("1/7", 100),
    ),
)


def same(one: Entry, two: Entry) -> bool:
    if not isinstance(one, Answered) or not isinstance(two, Answered):
        return one == two
    return all(
        a.query == b.query
        and np.array_equal(a.values, b.values)
        and np.array_equal(a.stddev, b.stddev)
        and a.noise == b.noise
        for a, b in zip(one.measurements, two.measurements, strict=True)
    )


@given(entries)
def test_every_entry_survives_its_record(entry: Entry) -> None:
    assert same(_decode_entry(_encode_entry(entry), DOMAIN), entry)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=5), st.data())
def test_a_file_that_is_cut_anywhere_holds_the_whole_records_before_the_cut(
    tmp_path_factory: pytest.TempPathFactory, payloads: list[bytes], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("records") / "a"
    file = RecordFile.create(path)
    ends = [len(MAGIC) + 2]
    for payload in payloads:
        file.append(payload)
        ends.append(ends[-1] + 40 + len(payload))
    file.close()
    assert read_records(path) == payloads
    assert path.stat().st_size >= ends[-1]
    cut = data.draw(st.integers(ends[0], path.stat().st_size))
    os.truncate(path, cut)
    assert read_records(path) == payloads[: sum(end <= cut for end in ends[1:])]
    changed = data.draw(st.integers(ends[0], ends[-1] - 1))
    whole = bytearray(path.read_bytes().ljust(ends[-1], b"\0"))
    whole[changed] ^= 255
    path.write_bytes(whole)
    assert (
        read_records(path)
        == payloads[: min(sum(end <= changed for end in ends[1:]), sum(end <= cut for end in ends[1:]))]
    )


def test_room_is_on_the_disk_before_it_is_needed(tmp_path: Path) -> None:
    file = RecordFile.create(tmp_path / "a")
    file.make_room(10**6)
    assert (tmp_path / "a").stat().st_blocks * 512 >= 10**6
    size = (tmp_path / "a").stat().st_size
    file.append(bytes(10**6))
    assert (tmp_path / "a").stat().st_size == size >= 10**6 + RESERVE
    file.close()


def test_other_and_newer_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"value,stddev\n")
    (tmp_path / "b").write_bytes(MAGIC + b"2\n")
    (tmp_path / "c").write_bytes(MAGIC + b"1\n")
    assert [is_record_file(tmp_path / name) for name in "abcd"] == [False, True, True, False]
    for name, words in (
        ("a", "not the partial file"),
        ("b", "upgrade"),
        ("c", "spent nothing"),
        ("d", "cannot be read"),
    ):
        with pytest.raises(ReleaseError, match=words):
            Partial.load(tmp_path / name)
