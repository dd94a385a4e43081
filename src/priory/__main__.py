"""Main: `python -m priory` is the command line."""

from priory.cli import main

if __name__ == "__main__":
    main()
