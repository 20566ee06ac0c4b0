"""What the environment says that no setting is made of."""

from __future__ import annotations

import pytest

from triumvir import settings


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
