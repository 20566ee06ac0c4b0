"""The command line: ``triumvir --help``."""

from triumvir.cli.app import main

__all__ = ["main"]
