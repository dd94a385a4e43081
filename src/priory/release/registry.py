"""Registry: a release's privacy statement as an entry of the public registry of differential privacy deployments."""

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from priory.errors import ReleaseError
from priory.estimate.first_model import starts_from_public_data
from priory.privacy.budget import Currency, rounded_up
from priory.privacy.statement import Statement
from priory.queries.sensitivity import Relation
from priory.release.release import Release

BLANK = "TO FILL: "
# What the registry allows.
CURATOR_TYPES = ("Government", "Industry", "Nonprofit")
_MADE_OF_DATA = ("Summary statistics", "Machine learning model", "Dataset", "Synthetic data")
PRODUCT_TYPES = (*_MADE_OF_DATA, "Interactive API", "SQL queries")
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
BOOKS = {
    True: "A ledger on disk adds up all releases about the same units and refuses what exceeds its total.",
    False: "No ledger on disk was kept for this release: others about the same units are not counted in it.",
}
DECLARED_SCHEMA = "The schema: columns, their values, bounds and bins, constraints. It was declared to be public."
LEARNT_SCHEMA = (
    "What of the schema was declared: names of columns, and whatever was not learnt from the table. What was learnt is "
    "protected, and its cost is in the parameters."
)


@dataclass(frozen=True)
class Entry:
    """What is submitted to the registry."""

    fields: dict[str, Any]  # the entry, by the registry's names
    blanks: tuple[str, ...]  # the paths of what only people can say; their values begin with `BLANK`


def yaml_text(data: dict[str, Any]) -> str:
    """An entry, or a statement, as YAML with texts of several lines as blocks."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """YAML with texts of several lines as blocks."""

    def text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)

    Dumper.add_representer(str, text)
    return yaml.dump(data, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=100)


def registry_entry(release: Release) -> Entry:
    """The entry of a release, with blanks for what it does not say; refused if it was made with test randomness."""
    import yaml

    if not release.statement.is_private:
        raise ReleaseError("the release was made with test randomness; it is not private and cannot be registered")
    form = yaml.safe_load(Path(__file__).with_name("registry_entry.yaml").read_text(encoding="utf-8"))
    fields = _filled(form, _facts(release))
    return Entry(fields, tuple(_blanks(fields)))


def _filled(node: Any, facts: dict[str, Any]) -> Any:  # noqa: ANN401 - a part of the form
    if isinstance(node, dict):
        return {key: _filled(value, facts) for key, value in node.items()}
    if isinstance(node, list):
        return [_filled(value, facts) for value in node]
    # A fact that is all of a field keeps its type.
    alone = re.fullmatch(r"\{(\w+)\}", str(node))
    return facts[alone[1]] if alone else node.format(**facts) if isinstance(node, str) else node


def _blanks(node: object, path: str = "") -> list[str]:
    if isinstance(node, dict):
        return [found for key, value in node.items() for found in _blanks(value, f"{path}/{key}" if path else key)]
    if isinstance(node, list):
        return [found for value in node for found in _blanks(value, f"{path}[]")]
    return [path] if isinstance(node, str) and BLANK in node else []


def _facts(release: Release) -> dict[str, Any]:
    """What the form asks of a release."""
    statement, is_rows = release.statement, release.statement.unit == "a row"
    who, many = ("one row", "rows") if is_rows else ("one person", "persons")
    several = " Somebody with several rows is protected less." if is_rows else ""
    return {
        "slug": re.sub(r"[^a-z0-9]+", "-", statement.dataset.lower()).strip("-") or "release",
        "dataset": statement.dataset,
        "curator_types": ", ".join(CURATOR_TYPES),
        "product_types": ", ".join(PRODUCT_TYPES),
        "sectors": ", ".join(SECTORS),
        "measurements": len(release.measurements),
        "columns": ", ".join(release.domain),
        "schema": "a public schema"
        if statement.discovered is None
        else "a schema that was learnt for a part of the loss",
        "variant": _variant_name(statement),
        "unprotected": "\n".join(f"- {each}" for each in _unprotected(release)),
        "unit": statement.unit[:1].upper() + statement.unit[1:],
        "adjacency": ADJACENCY[statement.budget.relation].format(who=who, many=many) + several,
        "units": _units(release, is_rows=is_rows),
        "parameters": _parameters(statement),
        "parameter_details": _parameter_details(statement),
        "book": BOOKS[statement.ledger == "file"],
        "accounting": statement.accounting,
        "mechanisms": _mechanisms(release),
    }


def _variant_name(statement: Statement) -> str:
    # The weakest of them, where there are two.
    budget = max(statement.promises, key=lambda each: not each.is_pure)
    if budget.is_pure:
        return "Pure DP"
    if budget.currency is Currency.ZCDP and not (statement.is_declared and budget.delta is not None):
        return "Zero-concentrated DP"
    return "Custom" if budget.delta is None else "Approximate DP"


def _unprotected(release: Release) -> list[str]:
    budget = release.statement.budget
    said = [DECLARED_SCHEMA if release.statement.discovered is None else LEARNT_SCHEMA]
    if budget.relation is Relation.REPLACE_ONE:
        said.append("The number of rows." if budget.max_rows == 1 else "The number of persons.")
    if any(measurement.is_public for measurement in release.measurements):
        said.append("Answers that were declared to be public; they are stored without noise.")
    if starts_from_public_data(release.model):
        said.append("Public data that the model starts from.")
    said.append("The options of the run: the budget, the mechanism and its settings.")
    return said


def _units(release: Release, *, is_rows: bool) -> int | str:
    """About how many rows, or persons with one row each, the model stands for. That is estimated, or public."""
    total = release.model.total
    if math.isfinite(total) and (is_rows or release.statement.budget.max_rows == 1):
        return max(0, round(total))
    return BLANK + "about how many persons; the release counts rows"


def _parameters(statement: Statement) -> dict[str, float]:
    if len(statement.promises) > 1:
        # No one figure is the promise; the details say both.
        return {}
    [budget] = statement.promises
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
    learnt = "" if statement.discovered is None else " What it cost to learn the schema from the table is in it."
    said = [f"Promised: {statement.promise}.{learnt}", f"Accounting: {statement.accounting}."]
    if not statement.is_declared:
        said.append(f"Spent: {statement.all_spent}.")
    if statement.tail:
        said.append(
            "For any one person the privacy loss exceeds epsilon with a probability of at most "
            f"{statement.tail}; delta is not that probability."
        )
    return " ".join(said)


def _mechanisms(release: Release) -> str:
    statement = release.statement
    if statement.is_declared:
        return f"The counts were {statement.mechanism}. " + BLANK + "how they were measured, and with what software"
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
        "Access to the table: " + BLANK + "how it is stored and who can read it",
        f"Version of the code: priory {statement.version}.",
    ]
    return "\n".join(f"- {point}" for point in points)
