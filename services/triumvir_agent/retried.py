"""What the log says of a call that is tried again."""

from __future__ import annotations

from stamina import instrumentation

from triumvir.telemetry import events
from triumvir.telemetry.logs import get_logger

log = get_logger(__name__)


def log_retries() -> None:
    """From now on a line for each, in place of the retry library's own, which quotes the failure."""
    instrumentation.set_on_retry_hooks([_log_retry])


def _log_retry(details: instrumentation.RetryDetails) -> None:
    """The failure's kind: of a confidential order, its text is a secret."""
    kind = type(details.caused_by).__name__
    log.warning(
        events.CALL_RETRIED, error=kind, retries=details.retry_num, seconds=round(details.wait_for, 3)
    )
