"""``python -m triumvir.cli`` is ``triumvir``."""

from triumvir.cli.app import main

main()
