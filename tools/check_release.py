"""Check release: a wheel and an sdist hold what they should, install into nothing, and run the demo.

Run by `make release`, after both were built. It uploads nothing.
"""

import argparse
import re
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "priory"

# What is not Python and is needed: a wheel without one of these installs, and fails later.
DATA = (
    "py.typed",
    "release/registry_entry.yaml",
    "report/style.css",
    "studio/static/studio.css",
    "studio/static/studio.js",
    "studio/templates/base.html",
    "town/town.yaml",
    "town/register_2024.csv.gz",
    "town/register_2025.csv.gz",
)
# Releases and ledgers that earlier versions wrote, for the tests to open: the only ones that belong in a package.
GOLDEN = "tests/golden/"
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "Makefile", "constraints.txt", "tests/conftest.py")
JUNK = (
    ".ci",
    ".coverage*",
    ".git",
    ".gitattributes",
    ".github",
    ".hypothesis",
    ".venv*",
    "*.egg-info",
    "*.ledger",
    "*.priory",
    "*.pyc",
    "*_cache",
    "__pycache__",
    "dist",
    "htmlcov",
    "priory-demo",
    "results",
    "site",
)


def version_problems(version: str, *, citation: str, changelog: str) -> list[str]:
    """Where another version than `version` is named."""
    problems = []
    if not re.search(rf"^version: {re.escape(version)}$", citation, re.MULTILINE):
        problems.append(f"CITATION.cff does not say version: {version}")
    if not re.search(rf"^## \[({re.escape(version)}|Unreleased)\]", changelog, re.MULTILINE):
        problems.append(f"CHANGELOG.md has no section [{version}]")
    return problems


def content_problems(names: Iterable[str], needed: Iterable[str]) -> list[str]:
    """What a package lacks of `needed`, and what it holds that belongs in no package."""
    inside = set(names)
    lacks = [f"lacks {name}" for name in needed if name not in inside]
    others = sorted(name for name in inside if not name.startswith(GOLDEN))
    junk = [f"holds {name}" for name in others if any(is_junk(part) for part in PurePosixPath(name).parts)]
    return lacks + junk


def is_junk(part: str) -> bool:
    """Whether a part of a path is made by a tool, private, or of the repository alone."""
    return any(fnmatch(part, pattern) for pattern in JUNK)


def needed_in_wheel() -> list[str]:
    """Every module of the package, and its data."""
    modules = [path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")]
    return [f"priory/{name}" for name in sorted([*modules, *DATA])]


def wheel_problems(wheel: Path) -> list[str]:
    """What is wrong with the content of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    roots = {name.split("/")[0] for name in names}
    strange = [f"holds {root}/" for root in sorted(roots) if root != "priory" and not root.endswith(".dist-info")]
    return [f"{wheel.name} {problem}" for problem in content_problems(names, needed_in_wheel()) + strange]


def needed_in_sdist() -> list[str]:
    """What is needed to test and build it again."""
    golden = [f"{GOLDEN}{path.name}" for path in sorted((ROOT / GOLDEN).iterdir())]
    return [*SOURCES, *golden, *(f"src/{name}" for name in needed_in_wheel())]


def sdist_problems(sdist: Path) -> list[str]:
    """What is wrong with the content of an sdist."""
    with tarfile.open(sdist) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    return [f"{sdist.name} {problem}" for problem in content_problems(names, needed_in_sdist())]


def run_from_nothing(package: Path, version: str) -> None:
    """Install a package into an empty environment, and run its version and its demo away from the repository."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        venv.create(home / "venv", with_pip=True)
        bin_ = home / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
        pip: list[str | Path] = [bin_ / "python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        subprocess.run([*pip, "--constraint", ROOT / "constraints.txt", package.resolve()], cwd=home, check=True)
        said = subprocess.run(
            [bin_ / "priory", "--version"], cwd=home, capture_output=True, encoding="utf-8", check=True
        )
        if said.stdout.strip() != f"priory {version}":
            sys.exit(f"{package.name} says {said.stdout.strip()!r}, not 'priory {version}'")
        subprocess.run([bin_ / "priory", "demo", "--json"], cwd=home, stdout=subprocess.DEVNULL, check=True)


def main() -> None:
    """Check the wheel and the sdist in a folder."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path, help="where the wheel and the sdist are")
    folder = parser.parse_args().folder
    [wheel], [sdist] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    version = wheel.name.split("-")[1]
    citation, changelog = ((ROOT / name).read_text(encoding="utf-8") for name in ("CITATION.cff", "CHANGELOG.md"))
    problems = [
        *version_problems(version, citation=citation, changelog=changelog),
        *wheel_problems(wheel),
        *sdist_problems(sdist),
    ]
    if problems:
        sys.exit("\n".join(problems))
    if "## [Unreleased]" in changelog:
        print("CHANGELOG.md still has a section [Unreleased]: name it before the tag")
    for package in (wheel, sdist):
        run_from_nothing(package, version)
        print(f"{package.name}: {package.stat().st_size:,} bytes; installs into an empty environment and runs the demo")


if __name__ == "__main__":
    main()
