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
    # Not longer than the name itself may be: a name of 255 bytes is a good one.
    draft = path.with_name(f".{secrets.token_hex(8)}")
    try:
        yield draft
        draft.replace(path)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        draft.unlink(missing_ok=True)
