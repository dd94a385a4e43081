"""A studio in a process of its own, whose runs have replayed randomness and can be made to wait."""

import sys

from priory.studio.folder import Folder
from priory.studio.hub import Studio
from priory.studio.server import serve
from studio_site import REPLAYED


def say(words: str) -> None:
    sys.stderr.write(words + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    serve(Studio(Folder.of(sys.argv[1]), REPLAYED), opens_browser=False, is_terminal=True, say=say)
