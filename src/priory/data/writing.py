"""Writing: files that appear whole or not at all."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from priory.errors import DataError


@contextmanager
def written_whole(path: str | Path) -> Iterator[Path]:
    """A draft beside `path` that takes its place when the block ends well; a failure leaves what was there.

    Raises:
        DataError: the file cannot be written.
    """
    path = Path(path)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        yield draft
        draft.replace(path)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        draft.unlink(missing_ok=True)
