"""Recipe: the mechanism that a job asks for, with its public rows, groups and workload, checked."""

from collections.abc import Callable
from dataclasses import is_dataclass, replace
from typing import cast

from priory.data.schema import Schema
from priory.errors import DomainError, OptionError
from priory.mechanisms.ide.prior_update import PriorUpdate
from priory.app.registry import Mechanism, Registered
from priory.model.bases import PublicRows
from priory.queries.workload import Workload
from priory.release.estimated import possible, uniform
from priory.release.partial import Job


def recipe_of(entry: Registered, job: Job) -> Mechanism:
    """The mechanism of `entry` for a job; it is the same each time.

    Raises:
        PrioryError: the mechanism cannot do what is asked, or the schema's constraints leave nothing.
    """
    schema, rows = job.schema, job.rows
    # Constraints that leave no row are noticed here, before anything is paid.
    uniform(schema.domain, schema)
    if job.by is not None:
        entry = _grouped(entry, schema, job.by, rows)
    recipe = entry.build(schema.domain) if rows is None else _from_public(entry, schema, rows)
    return recipe if job.workload is None else _aimed(entry, recipe, job.workload.checked(schema.domain))


def check_uses_public(entry: Registered) -> Callable[[PublicRows], Mechanism]:
    """How the mechanism starts from public rows.

    Raises:
        OptionError: it has no use for them.
    """
    if entry.upon is None:
        raise OptionError("public", f"{entry.name} has no use for public data; leave it out or take another mechanism")
    return entry.upon


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

    def upon(rows: PublicRows) -> Mechanism:
        recipe = PriorUpdate(public=rows, by=levels, groups=groups)
        recipe.levels(schema.domain)
        return recipe

    return replace(entry, upon=upon)


def _aimed(entry: Registered, mechanism: object, workload: Workload) -> Mechanism:
    """The mechanism with another workload."""
    if not is_dataclass(mechanism) or isinstance(mechanism, type) or not hasattr(mechanism, "workload"):
        raise OptionError("workload", f"{entry.name} aims at nothing in particular; leave it out or take another")
    return cast(Mechanism, replace(mechanism, workload=workload))


def _from_public(entry: Registered, schema: Schema, rows: PublicRows) -> Mechanism:
    """The mechanism that starts from public rows."""
    possible(rows, schema.impossible())
    return check_uses_public(entry)(rows)
