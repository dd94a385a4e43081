"""Recipe: the mechanism that a job asks for, with its public rows, groups and workload, checked."""

from collections.abc import Callable, Sequence
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np

from priory.app.registry import Mechanism, Registered, chosen
from priory.data.public import public_codes
from priory.data.schema import Schema
from priory.errors import DomainError, OptionError
from priory.mechanisms.ide.prior_update import PriorUpdate
from priory.mechanisms.steps.effort import NORMAL, at_effort
from priory.model.bases import PublicRows
from priory.model.structural_zeros import without_zeros
from priory.privacy.recorder import Job
from priory.queries.workload import Workload
from priory.release.rows import check_constraints


def ordered(
    schema: Schema | str | Path,
    mechanism: str | Mechanism | None,
    public: object | None,
    by: Sequence[Sequence[str]] | None,
    workload: Workload | None,
    *,
    effort: str = NORMAL,
) -> tuple[Registered, Job]:
    """The mechanism and the job that the options of a fit ask for, checked; see `fit` for what they mean."""
    mechanism = "prior-update" if by is not None and mechanism is None else mechanism
    schema = schema if isinstance(schema, Schema) else Schema.load(schema)
    check_constraints(schema)
    has_public, has_workload = public is not None, workload is not None
    entry = chosen(mechanism, has_public=has_public, has_workload=has_workload)
    if has_public:
        from_public(entry)
    is_registered = mechanism is None or isinstance(mechanism, str)
    levels = None if by is None else tuple(tuple(level) for level in by)
    codes = None if public is None else np.unique(public_codes(schema, public), axis=0, return_counts=True)
    job = Job(schema, entry.name, is_registered, levels, workload, codes, effort)
    return entry, job


def recipe_of(entry: Registered, job: Job) -> Mechanism:
    """The mechanism of `entry` for a job, if it can do what is asked; it is the same each time."""
    schema = job.schema
    rows = public_rows(job)
    if job.by is not None:
        entry = _grouped(entry, schema, job.by, rows)
    if rows is None:
        recipe = entry.build(schema.domain)
    else:
        # Constraints that leave none of the public rows are noticed here, before anything is paid.
        without_zeros(rows, schema.impossible())
        recipe = from_public(entry)(rows)
    if job.workload is not None:
        recipe = _aimed(entry, recipe, job.workload.checked(schema.domain))
    return recipe if job.effort == NORMAL else at_effort(recipe, job.effort)


def public_rows(job: Job) -> PublicRows | None:
    """The public rows of a job, where it has some."""
    return None if job.public is None else PublicRows.counted(*job.public, job.schema.domain)


def from_public(entry: Registered) -> Callable[[PublicRows], Mechanism]:
    """How the mechanism starts from public rows, if it has a use for them."""
    if entry.with_public is None:
        raise OptionError("public", f"{entry.name} has no use for public data; leave it out or take another mechanism")
    return entry.with_public


def _grouped(
    entry: Registered, schema: Schema, levels: tuple[tuple[str, ...], ...], rows: PublicRows | None
) -> Registered:
    """The recipe for groups within groups."""
    if entry.name != "prior-update" or rows is None:
        raise OptionError("by", "groups within groups need public data and the mechanism prior-update")
    names = [name for level in levels for name in level]
    try:
        schema.domain.checked(names)
    except DomainError as error:
        raise OptionError("by", str(error)) from None
    declared = next((group for group in schema.groups if set(group.by) == set(names)), None)
    groups = None
    if declared is not None:
        order = [declared.by.index(name) for name in names]
        groups = tuple(tuple(codes[i] for i in order) for codes in declared.codes(schema.columns))

    def with_public(rows: PublicRows) -> Mechanism:
        recipe = PriorUpdate(public=rows, by=levels, groups=groups)
        recipe.levels(schema.domain)
        return recipe

    return replace(entry, with_public=with_public)


def _aimed(entry: Registered, mechanism: object, workload: Workload) -> Mechanism:
    """The mechanism with another workload."""
    if not is_dataclass(mechanism) or isinstance(mechanism, type) or not hasattr(mechanism, "workload"):
        raise OptionError("workload", f"{entry.name} aims at no workload; leave it out or take another mechanism")
    return cast(Mechanism, replace(mechanism, workload=workload))
