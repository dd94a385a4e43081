"""Registry: a release's privacy statement as an entry of the public registry of differential privacy deployments."""

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from priory.errors import ReleaseError
from priory.privacy.budget import Currency, rounded_up
from priory.privacy.explain import chance
from priory.privacy.statement import Statement
from priory.privacy.tail import loss_tail
from priory.queries.sensitivity import Relation
from priory.release.estimated import starts_from_public_data
from priory.release.release import Release

BLANK = "TO FILL: "
# What the registry allows.
CURATOR_TYPES = ("Government", "Industry", "Nonprofit")
PRODUCT_TYPES = (
    "Summary statistics",
    "Machine learning model",
    "Dataset",
    "Synthetic data",
    "Interactive API",
    "SQL queries",
)
SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")

NOISE = {
    "laplace": "discrete Laplace noise",
    "gaussian": "discrete Gaussian noise",
    "rounded-gaussian": "Gaussian noise rounded to a lattice",
}
ADJACENCY = {
    Relation.ADD_REMOVE: "Two tables are adjacent if one has all records of {who} that count and the other has none of "
    "them, and all other records are the same (add-remove).",
    Relation.REPLACE_ONE: "Two tables are adjacent if they have the same number of {many} and differ in the records of "
    "{who} (replace-one).",
}


@dataclass(frozen=True)
class Entry:
    """What is submitted to the registry."""

    fields: dict[str, Any]  # the entry, by the registry's names
    blanks: tuple[str, ...]  # the paths of what only people can say; their values begin with `BLANK`


def registry_entry(release: Release) -> Entry:
    """The entry of a release. What the release does not say is a blank.

    Raises:
        ReleaseError: the release was made with test randomness, so that nothing is promised.
    """
    if not release.statement.is_private:
        raise ReleaseError("the release was made with test randomness; it is not private and cannot be registered")
    fields = {
        "url_slug": re.sub(r"[^a-z0-9]+", "-", release.statement.dataset.lower()).strip("-") or "release",
        "deployment": {
            "basic": _basic(release),
            "dp_variant": _variant(release),
            "privacy_loss": _privacy_loss(release),
            "deployment_model": _model(release.statement),
            "implementation": _implementation(release),
            "administrative": {
                "status": "Draft",
                "registry_authors": [_blank("who fills in this entry")],
                "tier": 3,
            },
        },
    }
    return Entry(fields, tuple(_blanks(fields)))


def _blank(what: str) -> str:
    return BLANK + what


def _blanks(node: object, path: str = "") -> list[str]:
    if isinstance(node, dict):
        return [found for key, value in node.items() for found in _blanks(value, f"{path}/{key}" if path else key)]
    if isinstance(node, list):
        return [found for value in node for found in _blanks(value, f"{path}[]")]
    return [path] if isinstance(node, str) and BLANK in node else []


def _one_of(values: tuple[str, ...]) -> str:
    return "one of " + ", ".join(values)


def _basic(release: Release) -> dict[str, Any]:
    columns = ", ".join(release.domain)
    return {
        "name": release.statement.dataset,
        "data_curators": [
            {
                "data_curator_name": _blank("who publishes this"),
                "data_curator_type": _blank(_one_of(CURATOR_TYPES)),
            }
        ],
        "description": (
            f"{len(release.measurements)} noisy measurements of a table with the columns {columns}, and a model "
            "estimated from them, from which tables of counts and synthetic rows are made."
        ),
        "intended_use": _blank("what it may be used for"),
        "data_product_type": _blank(f"{_one_of(PRODUCT_TYPES)}: Synthetic data if rows are published"),
        "data_product_region": _blank("which region the data describe, and whose law applies"),
        "data_product_sector": _blank(_one_of(SECTORS)),
        "publication_date": _blank("YYYY-MM-DD; a release file has no date"),
    }


def _variant(release: Release) -> dict[str, Any]:
    return {
        "variant_name": _variant_name(release.statement),
        "data_domain": (
            f"All tables with the columns {', '.join(release.domain)}. Every cell is mapped to one of the values that "
            "the schema declares; cells that fit none of them have a declared value, too."
        ),
        "unprotected_quantities": "\n".join(f"- {each}" for each in _unprotected(release)),
    }


def _variant_name(statement: Statement) -> str:
    budget = statement.budget
    if budget.is_pure:
        return "Pure DP"
    if budget.currency is Currency.ZCDP and not (statement.is_declared and budget.delta is not None):
        return "Zero-concentrated DP"
    return "Custom" if budget.delta is None else "Approximate DP"


def _unprotected(release: Release) -> list[str]:
    budget = release.statement.budget
    said = ["The schema: columns, their values, bounds and bins, constraints. It was declared to be public."]
    if budget.relation is Relation.REPLACE_ONE:
        said.append("The number of rows." if budget.max_rows == 1 else "The number of persons.")
    if any(measurement.is_public for measurement in release.measurements):
        said.append("Answers that were declared to be public; they are stored without noise.")
    if starts_from_public_data(release.model):
        said.append("Public data that the model starts from.")
    said.append("The options of the run: the budget, the mechanism and its settings.")
    return said


def _privacy_loss(release: Release) -> dict[str, Any]:
    statement = release.statement
    budget = statement.budget
    is_rows = statement.unit == "a row"
    adjacency = ADJACENCY[budget.relation].format(
        who="one row" if is_rows else "one person", many="rows" if is_rows else "persons"
    )
    several = " Somebody with several rows is protected less." if is_rows else ""
    return {
        "privacy_unit": statement.unit[:1].upper() + statement.unit[1:],
        "privacy_unit_details": adjacency + several,
        "number_of_privacy_units": _units(release, is_rows=is_rows),
        "privacy_parameters": _parameters(statement),
        "privacy_parameters_details": _parameter_details(statement),
    }


def _units(release: Release, *, is_rows: bool) -> int | str:
    """About how many rows, or persons with one row each, the model stands for. That is estimated, or public."""
    total = release.model.total
    if math.isfinite(total) and (is_rows or release.statement.budget.max_rows == 1):
        return max(0, round(total))
    return _blank("about how many persons; the release counts rows")


def _parameters(statement: Statement) -> dict[str, float]:
    budget = statement.budget
    said: dict[str, Fraction] = {}
    if budget.is_pure:
        said["epsilon"] = budget.amount
    elif budget.epsilon is not None and budget.delta is not None:
        said = {"epsilon": budget.epsilon, "delta": budget.delta}
    if not (budget.is_pure or (statement.is_declared and budget.delta is not None)):
        # μ-GDP is (μ²/2)-zCDP.
        said["rho"] = budget.amount if budget.currency is Currency.ZCDP else budget.amount / 2
    # What is promised is rounded up.
    return {name: float(rounded_up(value)) for name, value in said.items()}


def _parameter_details(statement: Statement) -> str:
    budget = statement.budget
    said = [f"Promised: {statement.promise}.", f"Accounting: {statement.accounting}."]
    if not statement.is_declared:
        said.append(f"Spent: {budget.currency.letter} = {rounded_up(statement.spent)}.")
    if budget.epsilon is not None and not statement.is_declared:
        said.append(
            "For any one person the privacy loss exceeds epsilon with a probability of at most "
            f"{chance(loss_tail(budget, budget.epsilon))}; delta is not that probability."
        )
    return " ".join(said)


def _model(statement: Statement) -> dict[str, Any]:
    book = (
        "A ledger on disk adds up all releases about the same units and refuses what exceeds its total."
        if statement.ledger == "file"
        else "No ledger on disk was kept for this release: others about the same units are not counted in it."
    )
    return {
        "model_name": "Central",
        "model_name_details": "A trusted curator holds the table and runs the mechanism; the release file leaves it.",
        "trust_assumptions": (
            "The curator, the machine, its operating system and its source of randomness are trusted. Those who see "
            "the release are not: they may know anything else and work together."
        ),
        "actors": _blank("who holds the table, who runs the mechanism, who gets the release"),
        "release_type": "One release",
        "release_type_details": f"{book} {_blank('whether more releases from these data are planned')}",
        "data_source_type": "Static",
        "data_source_type_details": (
            f"One version of the table was read. {_blank('whether new data come in; if so, Dynamic above')}"
        ),
        "access_type": "Non-interactive",
        "access_type_details": "Users ask the published release, at no further privacy loss, and never the table.",
    }


def _implementation(release: Release) -> dict[str, Any]:
    return {
        "preprocessing_and_hyperparameter_tuning": (
            "Cells are mapped to the values of a public schema, and of each unit at most the declared number of rows "
            "counts; neither depends on other rows. "
            + _blank("what was done to the table before, and how epsilon and the options were chosen")
        ),
        "mechanisms": _mechanisms(release),
        "composition": (
            f"Sequential composition: {release.statement.accounting}. Each measurement and each private choice is paid "
            "from a reservation before the table is read for it; their sum, in exact fractions, never exceeds it."
        ),
        "post_processing": (
            "A model is estimated from the noisy measurements alone; tables, intervals and synthetic rows are computed "
            "from it. Noisy counts are kept as they are, negative ones too."
        ),
        "justification": _blank("why this unit, these parameters and this mechanism"),
        "utility": "Answers of the release carry intervals for the error of the noise. "
        + _blank("what else is known of its errors"),
        "additional_information": _blank("links to the release and to descriptions of it"),
    }


def _mechanisms(release: Release) -> str:
    statement = release.statement
    if statement.is_declared:
        return f"The counts were {statement.mechanism}. " + _blank("how they were measured, and with what software")
    kinds = sorted({measurement.noise.kind for measurement in release.measurements if measurement.noise is not None})
    noise = " and ".join(NOISE.get(kind, kind) for kind in kinds) or "no noise"
    drawn_by = f"{statement.randomness} {statement.randomness_version}".rstrip()
    points = [
        f"Mechanism {statement.mechanism} of priory {statement.version}: {noise} on counts. Where it chooses what to "
        "measure from private data: the exponential mechanism or permute-and-flip.",
        "Floating point: private counts are integers, and noise is added on a lattice of whole numbers or of binary "
        f"fractions. It was drawn by {drawn_by}, exactly.",
        "Timing: the table is processed offline, and no time is part of the release. Running times are not protected.",
        "Platform: randomness comes from the operating system and cannot be seeded.",
        "Access to the table: " + _blank("how it is stored and who can read it"),
        f"Version of the code: priory {statement.version}.",
    ]
    return "\n".join(f"- {point}" for point in points)
