"""The tables of the documentation say what the code says. To write them: ``python -m tests.house.tables``."""

from __future__ import annotations

import pytest

from tests.house import tables
from triumvir.settings import Settings


@pytest.mark.parametrize("name", tables.TABLES)
def test_a_table_of_the_documentation_equals_the_code(name: str) -> None:
    assert tables.written(name) == tables.TABLES[name][1](), "run: python -m tests.house.tables"


def test_every_setting_says_what_it_means() -> None:
    silent = [name for name, field in Settings.model_fields.items() if not field.description]
    assert [name for name in silent if name not in ("log_level", "log_format")] == []
