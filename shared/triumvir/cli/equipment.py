"""What most commands need first: settings, and logs that do not get in the way of a person."""

from __future__ import annotations

import atexit
import os
import sys
from functools import cache
from typing import Final

from triumvir import settings as settings_module
from triumvir.errors import ConfigurationError
from triumvir.settings import Settings
from triumvir.telemetry import logs, tracing

_SERVICE: Final = "cli"


@cache
def settings() -> Settings:
    """The settings of this command, with its logs and traces set up. Raises ConfigurationError."""
    loaded = settings_module.load()
    quiet = {} if "log_level" in loaded.model_fields_set else {"log_level": "WARNING"}
    plain = {} if "log_format" in loaded.model_fields_set else {"log_format": "console"}
    adapted = loaded.model_copy(update={**quiet, **plain})
    if loaded.otlp_endpoint is None:
        tracing.record_nothing(loaded.trace_sample_ratio)
    else:
        _export(adapted)
    # What goes wrong with the broker a command says once, in its own words.
    logs.configure(adapted, _SERVICE, str(os.getpid()), broker_library=not quiet)
    return loaded


def _export(settings: Settings) -> None:
    """Imported only when wanted: the exporters take longer to import than most commands to run."""
    from triumvir.telemetry import export

    export.configure(settings, _SERVICE, str(os.getpid()))
    atexit.register(export.shutdown)


def client_url(given: str | None) -> str:
    """Where a client connects to: the option, else TRIUMVIR_CLIENT_URL. Raises ConfigurationError: never as the
    services, whose user would then be taken for a client.
    """
    url = given or settings().client_url
    if url is None:
        raise ConfigurationError(
            "TRIUMVIR_CLIENT_URL is not set, and no --url is given: orders are placed as a client; "
            "make one with triumvir clients add NAME, which prints its URL"
        )
    return url


def is_debugging() -> bool:
    """Whether tracebacks are wanted."""
    try:
        return settings_module.load().log_level == "DEBUG"
    except ConfigurationError:
        return False


def import_from_here() -> None:
    """Let targets such as ``shop.agents:payments`` be found from the current folder, as ``python -m`` does."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
