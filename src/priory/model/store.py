"""Store: models and bases as plain data, metadata that JSON can hold and named arrays, never code."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priory.errors import OptionError, PrioryError, ReleaseError
from priory.model.bases import Base, Mixture, Product, PublicRows, Uniform
from priory.model.model import Model
from priory.queries.domain import Domain
from priory.queries.factor import Factor

Meta = dict[str, Any]
Arrays = dict[str, NDArray[Any]]


def to_arrays(base: Base, *, embed_public_rows: bool = False) -> tuple[Meta, Arrays]:
    """A model or a base as metadata and arrays.

    Without `embed_public_rows` only a fingerprint of public rows is written, and whoever reads the data must supply the
    same rows. A custom base, which only its author can write, is an `OptionError`.
    """
    arrays: Arrays = {}
    return _written(base, "", arrays, embed=embed_public_rows), arrays


def _written(base: Base, prefix: str, arrays: Arrays, *, embed: bool) -> Meta:
    if isinstance(base, Model):
        for i, factor in enumerate(base.potentials.values()):
            arrays[f"{prefix}potentials/{i}"] = np.asarray(factor.values, dtype=np.float64)
        inner = _written(base.base, f"{prefix}base/", arrays, embed=embed)
        return {"kind": "model", "total": base.total, "cliques": [list(c) for c in base.cliques], "base": inner}
    if isinstance(base, Mixture):
        parts = [_written(part, f"{prefix}part/{i}/", arrays, embed=embed) for i, part in enumerate(base.bases)]
        return {"kind": "mixture", "weights": list(base.weights), "parts": parts}
    domain = [[name, size] for name, size in zip(base.domain, base.domain.shape, strict=True)]
    if isinstance(base, Uniform):
        return {"kind": "uniform", "domain": domain}
    if isinstance(base, Product):
        for i, shares in enumerate(base.shares.values()):
            arrays[f"{prefix}marginal/{i}"] = shares
        return {"kind": "product", "domain": domain, "attributes": list(base.shares)}
    if isinstance(base, PublicRows):
        if embed:
            arrays[f"{prefix}codes"], arrays[f"{prefix}shares"] = base.codes, base.shares
        return {"kind": "public-rows", "domain": domain, "embedded": embed, "fingerprint": fingerprint(base)}
    raise OptionError("base", f"{type(base).__name__} cannot be written: it is none of priory's own bases")


def fingerprint(rows: PublicRows) -> str:
    """A digest of public rows and their weights, by which they are known again."""
    digest = hashlib.sha256(repr((rows.domain.attributes, rows.domain.shape)).encode())
    digest.update(np.ascontiguousarray(rows.codes, dtype="<i4").tobytes())
    # Shares are sums whose last digits depend on the machine.
    digest.update(np.round(rows.shares, 12).astype("<f8").tobytes())
    return digest.hexdigest()


def from_arrays(
    meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], *, public: Iterable[PublicRows] = ()
) -> Base:
    """The model or base that `to_arrays` wrote; `public` are rows that were not embedded, matched by fingerprint."""
    try:
        return _read(meta, "", arrays, {fingerprint(rows): rows for rows in public})
    except ReleaseError:
        raise
    except PrioryError as error:
        raise ReleaseError(f"the stored model is damaged: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ReleaseError(f"the stored model is damaged: {type(error).__name__}: {error}") from error


def _read(
    meta: Mapping[str, Any], prefix: str, arrays: Mapping[str, NDArray[Any]], known: Mapping[str, PublicRows]
) -> Base:
    kind = meta["kind"]
    if kind == "model":
        base = _read(meta["base"], f"{prefix}base/", arrays, known)
        potentials = {tuple(clique): arrays[f"{prefix}potentials/{i}"] for i, clique in enumerate(meta["cliques"])}
        return Model.of(base, potentials, meta["total"])
    if kind == "mixture":
        parts = [_read(part, f"{prefix}part/{i}/", arrays, known) for i, part in enumerate(meta["parts"])]
        return Mixture(list(zip(meta["weights"], parts, strict=True)))
    if kind not in ("uniform", "product", "public-rows"):
        raise ReleaseError(f"the stored model has a part of unknown kind {kind!r}; a newer version may read it")
    domain = Domain.of(dict(meta["domain"]))
    if kind == "uniform":
        return Uniform(domain)
    if kind == "product":
        shares = {name: arrays[f"{prefix}marginal/{i}"] for i, name in enumerate(meta["attributes"])}
        return Product([Factor.of(domain.project((name,)), own) for name, own in shares.items()], domain=domain)
    if meta["embedded"]:
        return PublicRows(arrays[f"{prefix}codes"], domain, arrays[f"{prefix}shares"])
    if meta["fingerprint"] not in known:
        raise ReleaseError("the model starts from public rows that were not stored with it; supply the same rows again")
    return known[meta["fingerprint"]]
