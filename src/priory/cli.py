"""Command line: one verb per thing a person wants done."""


def main() -> None:
    """Run the command line."""
