"""Store: models and bases as plain data, metadata that JSON can hold and named arrays, never code."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priory.domain import Domain
from priory.errors import OptionError, PrioryError, ReleaseError
from priory.factor import Factor
from priory.model.bases import Base, Mixture, Product, PublicRows, Uniform
from priory.model.model import Model

Meta = dict[str, Any]
Arrays = dict[str, NDArray[Any]]


def to_arrays(base: Base, *, embed_public_rows: bool = False) -> tuple[Meta, Arrays]:
    """A model or a base as metadata and arrays.

    Args:
        base: what to write; a `Model` is a base too.
        embed_public_rows: whether public rows themselves are written. Without it only their fingerprint is, and whoever
            reads the data must supply the same rows.

    Raises:
        OptionError: the base is a custom one, which only its author can write.
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
    """The model or base that `to_arrays` wrote.

    Args:
        meta: the metadata.
        arrays: the arrays.
        public: public rows that were not embedded; they are matched by fingerprint.

    Raises:
        ReleaseError: the data is damaged, or public rows are missing.
    """
    known = {fingerprint(rows): rows for rows in public}
    try:
        return _Reader(arrays, known).read(meta)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ReleaseError(f"the stored model is damaged: {type(error).__name__}: {error}") from error


@dataclass(frozen=True, eq=False)
class _Reader:
    """Reads models and bases."""

    arrays: Mapping[str, NDArray[Any]]  # the arrays of all of them
    known: Mapping[str, PublicRows]  # public rows that were supplied, by fingerprint
    prefix: str = ""  # what the names of the arrays of the present one begin with

    def read(self, meta: Mapping[str, Any]) -> Base:
        kinds = {
            "model": self._model,
            "mixture": self._mixture,
            "uniform": lambda meta: Uniform(_domain(meta)),
            "product": self._product,
            "public-rows": self._rows,
        }
        if meta["kind"] not in kinds:
            what = f"a part of unknown kind {meta['kind']!r}"
            raise ReleaseError(f"the stored model has {what}; a newer version may read it")
        try:
            return kinds[meta["kind"]](meta)
        except ReleaseError:
            raise
        except PrioryError as error:
            raise ReleaseError(f"the stored model is damaged: {error}") from error

    def _below(self, meta: Mapping[str, Any], name: str) -> Base:
        return replace(self, prefix=f"{self.prefix}{name}/").read(meta)

    def _array(self, name: str) -> NDArray[Any]:
        return self.arrays[self.prefix + name]

    def _model(self, meta: Mapping[str, Any]) -> Base:
        cliques = [tuple(clique) for clique in meta["cliques"]]
        potentials = {clique: self._array(f"potentials/{i}") for i, clique in enumerate(cliques)}
        return Model.of(self._below(meta["base"], "base"), potentials, meta["total"])

    def _mixture(self, meta: Mapping[str, Any]) -> Base:
        parts = [self._below(part, f"part/{i}") for i, part in enumerate(meta["parts"])]
        return Mixture(list(zip(meta["weights"], parts, strict=True)))

    def _product(self, meta: Mapping[str, Any]) -> Base:
        domain = _domain(meta)
        marginals = enumerate(meta["attributes"])
        factors = [Factor.of(domain.project((name,)), self._array(f"marginal/{i}")) for i, name in marginals]
        return Product(factors, domain=domain)

    def _rows(self, meta: Mapping[str, Any]) -> Base:
        if meta["embedded"]:
            return PublicRows(self._array("codes"), _domain(meta), self._array("shares"))
        if meta["fingerprint"] not in self.known:
            raise ReleaseError(
                "the model starts from public rows that were not stored with it; supply the same rows again"
            )
        return self.known[meta["fingerprint"]]


def _domain(meta: Mapping[str, Any]) -> Domain:
    return Domain.of(dict(meta["domain"]))
