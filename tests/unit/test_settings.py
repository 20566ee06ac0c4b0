"""What the environment says that no setting is made of."""

from __future__ import annotations

from datetime import timedelta

import pytest

from triumvir import settings
from triumvir.errors import ConfigurationError


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("TRIUMVIR_SLOTZ", "TRIUMVIR_SLOTZ is no setting; did you mean TRIUMVIR_SLOTS?"),
        ("TRIUMVIR_DATABASE_DSN", "TRIUMVIR_DATABASE_DSN is no setting; did you mean TRIUMVIR_DATABASE_URL?"),
        ("triumvir_max_failure", "TRIUMVIR_MAX_FAILURE is no setting; did you mean TRIUMVIR_MAX_FAILURES?"),
        ("TRIUMVIR_COLOUR", "TRIUMVIR_COLOUR is no setting"),
    ],
)
def test_a_variable_that_is_no_setting_is_told_with_the_nearest_one(
    name: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = settings.unknown_variables()
    monkeypatch.setenv(name, "5")
    assert set(settings.unknown_variables()) - set(before) == {said}


def test_settings_in_either_case_and_the_variables_of_the_tests_are_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = settings.unknown_variables()
    for name in ("TRIUMVIR_SLOTS", "triumvir_prefetch", "TRIUMVIR_TEST_REWRITE"):
        monkeypatch.setenv(name, "5")
    assert settings.unknown_variables() == before


def test_several_durations_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIUMVIR_COOL_OFFS", "300, PT1H")
    assert settings.load().cool_offs == (timedelta(minutes=5), timedelta(hours=1))
    monkeypatch.setenv("TRIUMVIR_COOL_OFFS", "")
    assert settings.load().cool_offs == ()


@pytest.mark.parametrize("faulty", ["300,soon", "300,0", "300,-5", "300,"])
def test_of_several_durations_the_faulty_one_is_named(faulty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIUMVIR_COOL_OFFS", faulty)
    with pytest.raises(ConfigurationError, match=r"^TRIUMVIR_COOL_OFFS, value 2: "):
        settings.load()
