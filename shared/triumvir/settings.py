"""Settings: the only reader of the environment. Every one is ``TRIUMVIR_<NAME>``."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal, cast

from pydantic import BeforeValidator, Field, PlainSerializer, ValidationError
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from triumvir.errors import ConfigurationError


def _seconds(value: Any) -> Any:
    """Plain numbers are seconds; anything else is left to pydantic (ISO 8601, ``HH:MM:SS``)."""
    if isinstance(value, str) and value.replace(".", "", 1).isdigit():
        return timedelta(seconds=float(value))
    return timedelta(seconds=value) if isinstance(value, int | float) else value


Seconds = Annotated[
    timedelta, BeforeValidator(_seconds), PlainSerializer(timedelta.total_seconds, return_type=float)
]


def _each(value: Any) -> Any:
    """``300,3600``: several, in a text."""
    return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


SecondsList = Annotated[
    tuple[Annotated[Seconds, Field(gt=timedelta(0), le=timedelta(days=365))], ...],
    BeforeValidator(_each),
    NoDecode,
]

Transport = Literal["fast", "stock"]
"""How messages reach RabbitMQ: many to a write below the client library, or all by the client library itself."""


class Settings(BaseSettings):
    """What a Triumvir process can be told. Durations are seconds."""

    model_config = SettingsConfigDict(
        env_prefix="TRIUMVIR_", frozen=True, extra="ignore", env_ignore_empty=True
    )

    broker_url: str = Field("amqp://guest:guest@localhost:5672/", description="RabbitMQ, with user and vhost")
    management_url: str = Field(
        "http://guest:guest@localhost:15672", description="RabbitMQ management API; used to add clients"
    )
    client_url: str | None = Field(None, description="RabbitMQ as a client, for submit and watch")
    database_url: str = Field("postgresql://localhost/triumvir", description="the Postgres state repository")
    database_schema: str = Field(
        "triumvir", pattern=r"^[a-z_][a-z0-9_]{0,40}$", description="the schema that holds every table"
    )
    orders_dsn: str | None = Field(
        None, description="the Postgres that holds the order documents, if that is another; same schema name"
    )
    quorum_queues: bool = Field(True, description="declare quorum queues; off for single-node test brokers")

    transport: Transport = Field(
        "fast",
        description="`fast`: messages to and from RabbitMQ are handled in batches below the client library; "
        "`stock`: all is left to it, at several times the cost per message",
    )

    health_host: str = Field("127.0.0.1", description="where /livez and /readyz listen")
    health_port: int = Field(0, ge=0, le=65535, description="0: any free port, written to the log")
    health_port_file: str | None = Field(None, description="the port that was chosen is written here")
    log_level: str = Field("INFO", pattern="^(DEBUG|INFO|WARNING|ERROR)$")
    log_format: str = Field("json", pattern="^(json|console)$")
    otlp_endpoint: str | None = Field(
        None,
        pattern=r"^https?://[^\s/]",
        description="OTLP over HTTP, e.g. http://localhost:4318; off when unset",
    )
    trace_sample_ratio: float = Field(
        1.0, ge=0, le=1, description="share of orders traced, decided once per order"
    )

    batch_limit: int = Field(200, ge=1, le=1000, description="most messages or rows in one transaction")
    prefetch: int = Field(
        400, ge=1, le=10000, description="unacknowledged deliveries of submitter and scheduler"
    )
    publish_timeout: Seconds = Field(timedelta(seconds=10), description="wait for a publisher confirm")
    statement_timeout: Seconds = Field(timedelta(seconds=10), description="longest Postgres statement")
    poll_interval: Seconds = Field(
        timedelta(seconds=1), description="how often work is looked for without a hint"
    )
    drain_timeout: Seconds = Field(
        timedelta(seconds=20), description="time to finish what is in hand on SIGTERM"
    )
    watchdog_timeout: Seconds = Field(timedelta(seconds=60), description="no progress for so long: exit")
    outbox_lease: Seconds = Field(timedelta(seconds=10), description="unsent messages are swept after this")

    instance_lease: Seconds = Field(
        timedelta(seconds=15), description="an instance is gone when silent so long"
    )
    instance_renewal: Seconds = Field(
        timedelta(seconds=5), description="how often an instance renews its lease"
    )
    slots: int = Field(
        32, ge=1, le=10000, description="operations at once of each agent, in each process that runs it"
    )
    consumer_timeout: Seconds = Field(
        timedelta(minutes=30),
        ge=timedelta(seconds=1),
        le=timedelta(days=365),
        description="so long RabbitMQ waits for an acknowledgement (its `consumer_timeout`): a request with more than "
        "half of it to go is acknowledged when it is begun",
    )
    calls_per_request: int = Field(3, ge=1, le=100, description="calls an agent may make for one request")
    call_backoff: Seconds = Field(
        timedelta(milliseconds=200), description="first wait between calls, doubling"
    )

    step_timeout: Seconds = Field(timedelta(seconds=10), description="a step without its own complete_within")
    retry_interval: Seconds = Field(
        timedelta(seconds=3), description="a request unanswered so long is sent again"
    )
    max_retries: int = Field(2, ge=0, le=100, description="re-sends of one request; 0 turns them off")
    jitter_factor: float = Field(
        0.2, ge=0, lt=1, description="share by which the wait before a retry or an attempt varies"
    )
    max_failures: int = Field(3, ge=0, le=100, description="failed attempts of a step before on_error")
    reopen_backoff: Seconds = Field(
        timedelta(seconds=1), description="wait before the next attempt, doubling"
    )
    reopen_backoff_max: Seconds = Field(
        timedelta(seconds=60), description="longest wait before the next attempt"
    )
    cool_offs: SecondsList = Field(
        (),
        max_length=100,
        description="after `max_failures` failures, one more attempt after each of these waits, such as `300,3600`",
    )

    retry_budget: int = Field(
        30,
        ge=0,
        le=100_000,
        description="calls of an order beyond the first of each step, in all; then on_error",
    )
    undo_retry_budget: int = Field(
        30, ge=0, le=100_000, description="calls of each undo beyond its first; then compensation_failed"
    )
    action_recovery_delay: Seconds = Field(
        timedelta(seconds=3),
        ge=timedelta(),
        description="a retry comes no later, once who sent the request is gone; 0: as planned",
    )

    policy_file: str | None = Field(
        None, description="TOML: the settings above by Flow.State.Action; read by schedulers and supervisors"
    )

    supervisor_interval: Seconds = Field(timedelta(seconds=1), description="pause between two scans")
    supervisor_grace: Seconds = Field(timedelta(seconds=1), description="overdue by less is left alone")
    recovery_rate: float = Field(
        200, gt=0, le=100_000, description="overdue orders moved on in a second, by all supervisors together"
    )
    recovery_limit: int = Field(
        500, ge=1, le=100_000, description="overdue orders moved on in one scan, shared by all supervisors"
    )
    recovery_backlog: int = Field(
        1000, ge=1, description="so many re-opened orders wait for a scheduler: no more are re-opened"
    )

    unclaimed_limit: Seconds = Field(
        timedelta(minutes=10),
        description="an order that is due and claimed by no scheduler for so long: alert",
    )
    held_limit: Seconds = Field(timedelta(minutes=15), description="an order that is held for so long: alert")

    operator_log_retention: Seconds = Field(
        timedelta(days=90),
        description="bulks, what was paused, and who looked at confidential data are forgotten after so long",
    )

    retention_days: int | None = Field(
        None,
        ge=1,
        le=36_500,
        description="ended orders of workflows that say no `retention_days` are purged after so many days; unset: kept",
    )
    dedupe_days: int = Field(
        90, ge=1, le=36_500, description="for so long a purged order is still known by its key and digest"
    )
    purge_rate: float = Field(
        100, gt=0, le=100_000, description="orders purged in a second, by all supervisors together"
    )

    lone_document_age: Seconds = Field(
        timedelta(minutes=5),
        description="two databases: a document so old gets its missing order; more than a statement takes",
    )

    max_payload_bytes: int = Field(262_144, ge=1024, description="largest order payload")
    max_json_depth: int = Field(64, ge=1, le=500, description="deepest nesting of an order payload")
    max_open_orders: int = Field(100_000, ge=1, description="admission: more open orders are refused")

    crash_at: str | None = Field(None, description="fault tests: die at this crash point, `name` or `name:n`")
    crash_log: str | None = Field(None, description="fault tests: a line is added here before dying")


class _TransportAlone(BaseSettings):
    """For who has a URL and no settings, as clients do."""

    model_config = SettingsConfigDict(env_prefix="TRIUMVIR_", extra="ignore", env_ignore_empty=True)

    transport: Transport = "fast"


def chosen_transport() -> Transport:
    """TRIUMVIR_TRANSPORT alone. Raises ConfigurationError naming what is wrong with it."""
    try:
        return _TransportAlone().transport
    except ValidationError as error:
        raise ConfigurationError(f"TRIUMVIR_TRANSPORT: {error.errors()[0]['msg']}") from None


class _Given(Settings):
    """Only what is given, whatever the environment says."""

    model_config = SettingsConfigDict(extra="forbid")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)


def of_defaults(overrides: Mapping[str, object]) -> Settings:
    """The defaults with these ``overrides``, by name; the environment is not read. Raises ConfigurationError naming
    each that is unknown or wrong.
    """
    try:
        return _Given(**cast("dict[str, Any]", dict(overrides)))
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise ConfigurationError(f"settings: {faults}") from None


def unknown_variables() -> list[str]:
    """Each ``TRIUMVIR_`` variable that is no setting, in words, with the one that may have been meant. Those of the
    tests (``TRIUMVIR_TEST_``) are left out.
    """
    known = [f"TRIUMVIR_{name.upper()}" for name in Settings.model_fields]
    found = sorted(name for name in map(str.upper, os.environ) if name.startswith("TRIUMVIR_"))
    unknown = [name for name in found if name not in known and not name.startswith("TRIUMVIR_TEST_")]
    return [f"{name} is no setting{_meant(name, known)}" for name in unknown]


def _meant(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
    return f"; did you mean {close[0]}?" if close else ""


def load(**overrides: Any) -> Settings:
    """Settings from the environment; ``overrides`` win. Raises ConfigurationError naming each bad variable."""
    try:
        return Settings(**overrides)
    except ValidationError as error:
        faults = "; ".join(f"{_variable(fault['loc'])}: {fault['msg']}" for fault in error.errors())
        raise ConfigurationError(faults) from None


def _variable(place: tuple[str | int, ...]) -> str:
    """The variable that is at fault, and of several values in it which."""
    name, *index = place
    return f"TRIUMVIR_{name}".upper() + "".join(f", value {int(n) + 1}" for n in index)
