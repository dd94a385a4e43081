"""The command line with the tests' replayed randomness, as a process of its own.

A run waits after its first answer for as long as there is a file called "hold" in its folder.
"""

import time
from pathlib import Path

import priory.app.discover.job
import priory.app.fit
from priory.cli import main
from priory.privacy.noise import Integers, Noise
from priory.privacy.randomness import Randomness, Replay


class Held(Replay):
    """Replayed randomness that can be made to wait."""

    def noisy(self, values: Integers, noise: Noise) -> Integers:
        if len(self.transcript):
            Path("holding").touch()
            while Path("hold").exists():
                time.sleep(0.02)
        return super().noisy(values, noise)


def replayed(_asked: object) -> Randomness:
    return Held(seed=7)


for module in (priory.app.fit, priory.app.discover.job):
    vars(module)["source_of"] = replayed

if __name__ == "__main__":
    main()
