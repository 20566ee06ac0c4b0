"""What a scheduler or supervisor refuses to start with: a retry that could never be sent."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from triumvir.errors import ConfigurationError
from triumvir.runtime.decisions import sensible_policy
from triumvir.settings import Settings

MINUTE = timedelta(minutes=1)


def test_a_retry_that_would_come_after_the_timeout_is_refused_with_the_fix() -> None:
    with pytest.raises(
        ConfigurationError, match=r"TRIUMVIR_RETRY_INTERVAL.*TRIUMVIR_STEP_TIMEOUT.*shorten it"
    ):
        sensible_policy(Settings(retry_interval=MINUTE, step_timeout=MINUTE))


def test_without_retries_their_interval_does_not_matter() -> None:
    assert (
        sensible_policy(Settings(retry_interval=MINUTE, step_timeout=MINUTE, max_retries=0)).max_retries == 0
    )


def test_a_line_of_the_policy_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "policies.toml"
    path.write_text('["Any.charge.Any"]\ntimeout-duration = "1s"\n')
    with pytest.raises(ConfigurationError, match=r"policies\.toml:2.*for Any\.charge\.Any"):
        sensible_policy(Settings(policy_file=str(path)))
    path.write_text('["Any.charge.Any"]\ntimeout-duration = "1s"\ncustom-backoffs = ["200ms"]\n')
    sensible_policy(Settings(policy_file=str(path)))
