"""Arrow cells: the cells of Arrow columns, whatever their types."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from priory.data.cells import Cells


def arrow_cells(column: Any) -> Cells:  # noqa: ANN401 - pyarrow is optional
    """Cells of a pyarrow array or chunked array."""
    import pyarrow as pa

    column = _arrow_plain(column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column]))
    kind, null = column.type, column.is_null().to_numpy()
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        # With a time zone too: what is stored is the moment in UTC.
        unit = "D" if pa.types.is_date32(kind) else "ms" if pa.types.is_date64(kind) else kind.unit
        stored = column.cast(pa.int32()) if unit == "D" else column.cast(pa.int64())
        return Cells(stored.fill_null(0).to_numpy().astype(f"datetime64[{unit}]"), null)
    if pa.types.is_boolean(kind):
        return Cells(column.fill_null(fill_value=False).to_numpy(), null)
    if pa.types.is_floating(kind):
        return Cells(column.cast(pa.float64()).fill_null(0.0).to_numpy(), null)
    if pa.types.is_integer(kind):
        return Cells(column.fill_null(0).to_numpy(), null)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _arrow_texts(column.cast(pa.large_binary()), null)
    return Cells.objects(map(_arrow_object, column))


def _arrow_texts(column: Any, null: NDArray[np.bool_]) -> Cells:  # noqa: ANN401 - pyarrow is optional
    """Texts, each distinct one once.

    Arrow does not check that they are UTF-8, and what is not is no level of any schema.
    """
    chunks = [chunk for chunk in column.dictionary_encode().chunks if len(chunk)]
    if not chunks:
        return Cells(np.zeros(0, dtype=object))
    texts = [text.decode(errors="surrogateescape") for text in chunks[0].dictionary.to_pylist()]
    index = np.concatenate([chunk.indices.fill_null(0).to_numpy() for chunk in chunks])
    return indexed(Cells.objects(texts), index, null)


def _arrow_object(scalar: Any) -> object:  # noqa: ANN401 - pyarrow is optional
    """The Python object that it stands for, or itself where there is none, such as a time with nanoseconds."""
    try:
        return scalar.as_py()
    except Exception:  # noqa: BLE001 - no value of a cell may raise
        return scalar


def _arrow_plain(column: Any) -> Any:  # noqa: ANN401 - pyarrow is optional
    """The same values without extension types, run lengths and dictionaries."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    # What a UUID stores are sixteen bytes, which are no text.
    if isinstance(kind, pa.BaseExtensionType) and kind.extension_name != "arrow.uuid":
        return _arrow_plain(pa.chunked_array([chunk.storage for chunk in column.chunks], kind.storage_type))
    if pa.types.is_run_end_encoded(kind):
        return _arrow_plain(pa.chunked_array([pc.run_end_decode(chunk) for chunk in column.chunks], kind.value_type))
    if pa.types.is_dictionary(kind):
        chunks = [chunk.dictionary_decode() for chunk in column.chunks]
        return _arrow_plain(pa.chunked_array(chunks, kind.value_type))
    return column


def indexed(levels: Cells, index: NDArray[Any], null: NDArray[np.bool_]) -> Cells:
    """Cells stored once, with where each is; a level that is itself null makes its cells null."""
    if not len(levels):
        return Cells(np.array([None], dtype=object), null, np.zeros(len(index), dtype=np.intp))
    places = np.where(null, 0, index)
    if levels.null is not None:
        null = null | levels.null[places]
    return Cells(levels.values, null, places if levels.index is None else levels.index[places])
