"""Processes: each measurement in a process of its own, so that memory and compilation are its own too."""

import json
import os
import resource
import signal
import subprocess
import sys
import venv
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
Spec = dict[str, Any]
Result = dict[str, Any]


def peer_python(name: str, requirement: str) -> Path:
    """The interpreter of a virtual environment that holds a peer, made the first time."""
    folder = ROOT / f".venv-{name}"
    python = folder / "bin" / "python"
    stamp = folder / requirement.replace("==", "-")
    if not stamp.exists():
        print(f"setting up {folder.name} with {requirement} …", file=sys.stderr)
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", requirement], check=True)
        stamp.touch()
    return python


def measured(python: Path | str, module: str, spec: Spec, *, timeout: float, cpu_seconds: int | None = None) -> Result:
    """Run `module` with a spec on its standard input, and read its result; a failure is a result too.

    It is stopped after `timeout` seconds, or after so many CPU seconds of all its threads.
    """
    # Peers must not see this project's packages by accident: only the folder of the benchmarks is on their path.
    path = os.pathsep.join(map(str, (ROOT / "src", ROOT) if python == sys.executable else (ROOT,)))
    environment = os.environ | {"PYTHONPATH": path, "PYTHONWARNINGS": "ignore"}
    try:
        done = subprocess.run(
            [python, "-m", module],
            input=json.dumps(spec),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            cwd=ROOT,
            env=environment,
            preexec_fn=None if cpu_seconds is None else partial(_limit, cpu_seconds),
        )
    except subprocess.TimeoutExpired:
        return {"error": f"stopped after {timeout:.0f} s"}
    if done.returncode == -signal.SIGXCPU:
        return {"error": f"unfinished after {cpu_seconds} CPU s"}
    if done.returncode != 0:
        return {"error": (done.stderr.strip().splitlines() or ["failed"])[-1][:80]}
    result: Result = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def _limit(cpu_seconds: int) -> None:
    """Have the system stop this process after so many CPU seconds, with a signal that tells why."""
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 5))
