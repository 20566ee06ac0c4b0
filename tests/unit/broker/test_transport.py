"""Which transport is chosen, and that a wrong name is said to be wrong."""

from __future__ import annotations

import pytest

from triumvir.broker.fast import compatibility
from triumvir.errors import ConfigurationError
from triumvir.settings import chosen_transport, load


def test_fast_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRIUMVIR_TRANSPORT", raising=False)
    assert load().transport == chosen_transport() == "fast"


def test_stock_is_chosen_by_the_environment_for_services_and_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIUMVIR_TRANSPORT", "stock")
    assert load().transport == chosen_transport() == "stock"


def test_a_client_is_not_troubled_by_settings_of_services(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIUMVIR_PREFETCH", "no number")
    monkeypatch.setenv("TRIUMVIR_TRANSPORT", "stock")
    assert chosen_transport() == "stock"


def test_another_name_is_refused_with_those_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIUMVIR_TRANSPORT", "quick")
    for read in (load, chosen_transport):
        with pytest.raises(ConfigurationError, match=r"TRIUMVIR_TRANSPORT: .*'fast' or 'stock'"):
            read()


def test_the_client_library_of_the_lock_file_is_one_that_was_tested() -> None:
    assert compatibility.misfit() is None


def test_a_release_that_was_not_tested_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compatibility, "version", lambda _: "8.1.0")
    assert compatibility.misfit() == "aiormq 8.1.0 is installed; tested with 7.2"
