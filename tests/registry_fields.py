"""Registry fields: what an entry of the public registry of differential privacy deployments is made of.

Names, types and allowed values are those of the file schemas/deployments-schema.yaml in the repository
opendp/deployments-registry-data on GitHub, as of the commit below: the newest form of the file that could be found in
November 2026. The registry says that its lists of allowed values grow; compare before you submit an entry.
"""

from dataclasses import dataclass

from priory.release.registry import CURATOR_TYPES, PRODUCT_TYPES, SECTORS

COMMIT = "057e5d81cf60150dd3307e0cf4504b957802fb3b"


@dataclass(frozen=True)
class Field:
    """A field that holds a value.

    Attributes:
        path: the names that lead to it; "[]" stands for each item of a list.
        kinds: the JSON types that it may have; none where the registry does not say.
        allowed: the values that it may have, where there is a list of them.
        is_required: whether what contains it must have it.
        is_date: whether it is a date, YYYY-MM-DD.
    """

    path: str
    kinds: tuple[str, ...] = ("string",)
    allowed: tuple[str | int, ...] = ()
    is_required: bool = False
    is_date: bool = False


STATUSES = (
    "Converted",
    "Draft",
    "Pending",
    "Changes Required",
    "Approved",
    "Approved (Update Requested)",
    "Approved (Pending)",
)

_BASIC = (
    Field("name", is_required=True),
    Field("data_curators[]/data_curator_name", is_required=True),
    Field("data_curators[]/data_curator_type", allowed=CURATOR_TYPES, is_required=True),
    Field("description", is_required=True),
    Field("intended_use", is_required=True),
    Field("data_product_type", allowed=PRODUCT_TYPES, is_required=True),
    Field("data_product_region", is_required=True),
    Field("data_product_sector", allowed=SECTORS),
    Field("publication_date", is_required=True, is_date=True),
)
_VARIANT = (
    Field("variant_name", allowed=("Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom")),
    Field("data_domain"),
    Field("unprotected_quantities"),
)
_PRIVACY_LOSS = (
    Field("privacy_unit"),
    Field("privacy_unit_details"),
    Field("number_of_privacy_units", kinds=("integer",)),
    Field("privacy_parameters/epsilon", kinds=("number",)),
    Field("privacy_parameters/delta", kinds=("number", "string")),
    Field("privacy_parameters/rho", kinds=("number",)),
    Field("privacy_parameters_details", kinds=()),
)
_MODEL = (
    Field("model_name", allowed=("Local", "Central", "Shuffle", "Federated", "Varies")),
    Field("model_name_details"),
    Field("trust_assumptions"),
    Field("actors", kinds=()),
    Field("release_type", allowed=("One release", "Many releases")),
    Field("release_type_details"),
    Field("data_source_type", allowed=("Static", "Dynamic")),
    Field("data_source_type_details"),
    Field("access_type", allowed=("Interactive", "Non-interactive")),
    Field("access_type_details"),
)
_IMPLEMENTATION = (
    Field("preprocessing_and_hyperparameter_tuning"),
    Field("mechanisms"),
    Field("composition"),
    Field("post_processing"),
    Field("justification"),
    Field("utility", kinds=()),
    Field("additional_information", kinds=()),
)
_ADMINISTRATIVE = (
    Field("status", allowed=STATUSES, is_required=True),
    Field("registry_authors[]", is_required=True),
    Field("tier", kinds=("integer",), allowed=(1, 2, 3), is_required=True),
)
_PARTS = {
    "basic": _BASIC,
    "dp_variant": _VARIANT,
    "privacy_loss": _PRIVACY_LOSS,
    "deployment_model": _MODEL,
    "implementation": _IMPLEMENTATION,
    "administrative": _ADMINISTRATIVE,
}
# The parts that an entry must have.
REQUIRED_PARTS = ("basic", "administrative")

# Every field but `administrative/evidence_sources`: publications about the deployment, which only people can name.
FIELDS = (
    Field("url_slug", is_required=True),
    *(
        Field(f"deployment/{part}/{field.path}", field.kinds, field.allowed, field.is_required, field.is_date)
        for part, fields in _PARTS.items()
        for field in fields
    ),
)
