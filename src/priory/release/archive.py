"""Archive: a zip of JSON and arrays with a checksum for every file; nothing in it is ever executed.

The manifest names the format, its version, the sections with what they consist of, and the SHA-256 of each file; the
zip's comment holds the SHA-256 of the manifest. Damage and careless edits are noticed. Somebody who edits a file and
computes all checksums anew is not: that takes a signature, which is the business of whoever publishes the file.
"""

import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from priory.bounded import json_of, whole
from priory.data.writing import written_whole
from priory.errors import DataError, ReleaseError
from priory.privacy.record_file import is_record_file

FORMAT, VERSION = "priory release", 1
MANIFEST = "manifest.json"
# Archives of more files, that unpack to more than so many bytes and so many times their own size, are refused before
# anything is unpacked. Deflate alone would let a file of 4 MB unpack to 4 GiB.
MOST_FILES, MOST_BYTES, MOST_TIMES = 100_000, 2**25, 100

# What the libraries raise on files that are no good.
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError)

Files = Mapping[str, bytes]


def write_archive(path: str | Path, sections: Mapping[str, Files], required: frozenset[str]) -> None:
    """Write `sections`, files by name; the archive appears whole or not at all, the same bytes for the same release."""
    # A reader must understand the `required` sections to use the release at all.
    data = _packed(sections, required)
    try:
        with written_whole(path) as draft:
            draft.write_bytes(data)
    except DataError as error:
        raise ReleaseError(str(error)) from None


def read_archive(path: str | Path, known: frozenset[str]) -> dict[str, dict[str, bytes]]:
    """The sections of the archive at `path`, after every check."""
    if is_record_file(path):
        hint = f"make its release with: priory estimate {path} -o FILE"
        raise ReleaseError(f"{path} is what a run measured until it ended early; {hint}")
    try:
        with zipfile.ZipFile(path) as archive:
            manifest = _checked_manifest(archive, known)
            return _checked_sections(archive, manifest, most=_most_bytes(Path(path).stat().st_size))
    except ReleaseError as error:
        raise ReleaseError(f"{path}: {error}") from None
    except FileNotFoundError:
        raise ReleaseError(f"{path} does not exist") from None
    except OSError as error:
        raise ReleaseError(f"{path} cannot be read: {error.strerror or 'it is damaged'}") from None
    except (*_DAMAGED, KeyError, TypeError, AttributeError):
        what = "not a release, or it is damaged" if Path(path).stat().st_size else "empty"
        raise ReleaseError(f"{path} is {what}") from None


def json_bytes(value: object) -> bytes:
    """JSON that is the same each time."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=1).encode()


def _packed(sections: Mapping[str, Files], required: frozenset[str]) -> bytes:
    files = {f"{section}/{name}": data for section, parts in sections.items() for name, data in parts.items()}
    listed = {name: {"size": len(data), "sha256": _digest(data)} for name, data in sorted(files.items())}
    needed = {name: {"required": name in required} for name in sections}
    manifest = json_bytes({"format": FORMAT, "version": VERSION, "sections": needed, "files": listed})
    members = {MANIFEST: manifest, **dict(sorted(files.items()))}
    packed = _zipped(members, zipfile.ZIP_DEFLATED)
    # What is packed so well that it would be refused is not packed.
    is_refused = sum(map(len, files.values())) > _most_bytes(len(packed))
    return _zipped(members, zipfile.ZIP_STORED) if is_refused else packed


def _zipped(files: Files, method: int) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in files.items():
            # A fixed date: when a release was made is nobody's business.
            info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            info.compress_type = method
            archive.writestr(info, data)
        archive.comment = _digest(files[MANIFEST]).encode()
    return buffer.getvalue()


def _most_bytes(size: int) -> int:
    """What an archive of this size may unpack to."""
    return MOST_BYTES + MOST_TIMES * size


def _checked_manifest(archive: zipfile.ZipFile, known: frozenset[str]) -> dict[str, Any]:
    names = archive.namelist()
    if len(names) > MOST_FILES or len(set(names)) < len(names) or MANIFEST not in names:
        raise ValueError("not the files of a release")
    data = _read(archive, MANIFEST, MOST_BYTES)
    if archive.comment != _digest(data).encode():
        raise ReleaseError("the manifest was changed after the release was written; ask for the original file")
    manifest: dict[str, Any] = json_of(data)
    if manifest["format"] != FORMAT:
        raise ValueError("another format")
    if not isinstance(manifest["version"], int) or manifest["version"] < 1:
        raise ValueError("no version")
    if manifest["version"] > VERSION:
        said = f"the release has format version {manifest['version']}; this priory reads up to {VERSION}"
        raise ReleaseError(f"{said}: upgrade priory")
    unknown = [name for name, section in manifest["sections"].items() if section["required"] and name not in known]
    if unknown:
        raise ReleaseError(f"the release needs sections {unknown} that this priory does not know: upgrade priory")
    if set(names) != {MANIFEST, *manifest["files"]}:
        raise ReleaseError("files were added to the release or taken away; ask for the original file")
    return manifest


def _checked_sections(archive: zipfile.ZipFile, manifest: dict[str, Any], *, most: int) -> dict[str, dict[str, bytes]]:
    if sum(whole(entry["size"]) for entry in manifest["files"].values()) > most:
        raise ReleaseError(f"the release would unpack to more than {most:,} bytes; ask for the original file")
    sections: dict[str, dict[str, bytes]] = {name: {} for name in manifest["sections"]}
    for name, entry in manifest["files"].items():
        data = _read(archive, name, entry["size"])
        if len(data) != entry["size"] or _digest(data) != entry["sha256"]:
            raise ReleaseError(f"{name} was changed after the release was written; ask for the original file")
        section, _, inner = name.partition("/")
        sections[section][inner] = data
    return sections


def _read(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    """At most `limit` bytes and one more, whatever the file claims to unpack to."""
    with archive.open(name) as file:
        return file.read(limit + 1)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
