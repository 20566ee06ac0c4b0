"""The README's five minutes, word for word."""

from __future__ import annotations

from pathlib import Path

from tests.acceptance.walkthrough import dev, write_files
from tests.house.pages import blocks, files


def test_the_first_orders_of_the_readme_end_as_it_says(tmp_folder: Path) -> None:
    written = files("README.md")
    write_files(tmp_folder, written)
    (start,) = (b.text for b in blocks("README.md") if b.language == "sh" and "triumvir dev" in b.text)
    with dev(tmp_folder, start.strip()) as shell:
        told = shell.run(written["first-orders.sh"])
        assert "1  completed  every step completed" in told
        assert "2  compensated" in told
        assert "refund: undone" in told
        printed = shell.run("python order.py").splitlines()
        assert printed[0].startswith("1 received")
        assert printed[-1] == "courier to Paris"
        shell.run("python order.py")  # an equal order again: the same one
        assert shell.run("triumvir orders list --json").count('"order_id"') == 3
