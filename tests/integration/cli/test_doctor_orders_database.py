"""Where order documents live in a database of their own, the doctor looks at that one, too."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.integration.cli.ailing import problems, use
from tests.integration.cli.conftest import Triumvir
from tests.integration.cli.masks import Mask, masked, postgres_of_version, postgres_whose_clock_is_off
from tests.servers import ServerSet


@pytest.fixture
def orders_dsn(server_set: ServerSet) -> Iterator[str]:
    """An empty database."""
    with server_set.database(migrated=False) as url:
        yield url


@pytest.fixture
def paired(triumvir: Triumvir, monkeypatch: pytest.MonkeyPatch, orders_dsn: str) -> str:
    """The database of the documents, made one by the command that does so; its URL."""
    use(monkeypatch, orders_dsn=orders_dsn)
    triumvir("migrate")
    return orders_dsn


def of_orders_database(triumvir: Triumvir) -> dict[str, str]:
    """Problems and fixes, by subject."""
    found = problems(triumvir).items()
    return {name: f"{each['problem']}: {each['fix']}" for name, each in found if "orders database" in name}


def test_a_pair_has_nothing_wrong(triumvir: Triumvir, paired: str) -> None:
    assert of_orders_database(triumvir) == {}
    assert "ok    orders database: Postgres" in triumvir("doctor", code=1)


def test_one_that_is_away_names_its_own_setting(
    triumvir: Triumvir, paired: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, orders_dsn="postgresql://nobody:secret@127.0.0.1:9/none")
    (said,) = of_orders_database(triumvir).values()
    assert "cannot be reached" in said
    assert "check TRIUMVIR_ORDERS_DSN" in said
    assert "TRIUMVIR_DATABASE_URL" not in said


def test_a_setting_that_was_forgotten_is_told(
    triumvir: Triumvir, paired: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, orders_dsn="")
    assert "TRIUMVIR_ORDERS_DSN is not set" in of_orders_database(triumvir)["orders database"]


def test_one_that_was_never_made_is_told_the_command(
    triumvir: Triumvir, monkeypatch: pytest.MonkeyPatch, orders_dsn: str
) -> None:
    use(monkeypatch, orders_dsn=orders_dsn)
    (said,) = of_orders_database(triumvir).values()
    assert said == "schema 'triumvir' lacks 0001_documents: triumvir migrate"
    triumvir("migrate")
    assert of_orders_database(triumvir) == {}


def test_one_of_another_system_is_told(
    triumvir: Triumvir,
    paired: str,
    monkeypatch: pytest.MonkeyPatch,
    server_set: ServerSet,
) -> None:
    with server_set.database() as another:
        use(monkeypatch, database_url=another)
        assert "the state repository does not know of it" in of_orders_database(triumvir)["orders database"]
        with server_set.database(migrated=False) as its_own:
            use(monkeypatch, orders_dsn=its_own)
            triumvir("migrate")
            use(monkeypatch, orders_dsn=paired)
            assert "belongs to another system" in of_orders_database(triumvir)["orders database"]


@pytest.mark.parametrize(
    ("mask", "subject", "words"),
    [
        (postgres_of_version("13.9"), "orders database", "Postgres 13.9 is too old"),
        (
            postgres_whose_clock_is_off(timedelta(minutes=-9)),
            "clock of the orders database",
            "it is 9 min behind",
        ),
    ],
    ids=["version", "clock"],
)
def test_its_version_and_its_clock_are_looked_at(
    triumvir: Triumvir, paired: str, monkeypatch: pytest.MonkeyPatch, mask: Mask, subject: str, words: str
) -> None:
    with masked(paired, mask) as url:
        use(monkeypatch, orders_dsn=url)
        assert of_orders_database(triumvir)[subject].startswith(words)
