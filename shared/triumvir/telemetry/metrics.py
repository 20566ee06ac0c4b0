"""Every metric, declared once, before it is used. Read by ``/metrics`` and, when configured, sent by OTLP.

Durations are seconds. Labels are few and closed: never an order, a message or an instance. Hot paths count
once per batch: ``metrics.STEP_REPLIES.add(len(late), "late")``.
"""

from __future__ import annotations

from typing import Final

from opentelemetry.metrics import Meter

from triumvir.telemetry.instruments import Counter, Gauge, Histogram

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SIZES: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)

ORDERS_ACCEPTED: Final = Counter("triumvir.orders.accepted", "orders accepted at the door", "workflow")
ORDERS_REFUSED: Final = Counter("triumvir.orders.refused", "submissions refused at the door", "reason")
ORDERS_ENDED: Final = Counter(
    "triumvir.orders.ended", "orders that reached an end or came to rest", "workflow", "state"
)
ORDERS_CLAIMED: Final = Counter("triumvir.orders.claimed", "claims of orders by schedulers")
ORDERS_HELD: Final = Gauge("triumvir.orders.held", "orders held at present", "reason")
ORDERS_AGED: Final = Gauge(
    "triumvir.orders.aged",
    "orders that wait too long, `unclaimed` or `held`, as supervisors count them",
    "kind",
)
ORDERS_OPEN: Final = Gauge("triumvir.orders.open", "orders open at present, as last seen")
REQUESTS_SENT: Final = Counter("triumvir.requests.sent", "requests sent to agents", "direction", "retry")
STEP_REPLIES: Final = Counter(
    "triumvir.step.replies", "replies of agents; kind `late` changed no state", "kind"
)
RECOVERIES: Final = Counter(
    "triumvir.supervisor.recoveries", "orders that the supervisor moved on", "outcome"
)
ORDERS_PURGED: Final = Counter(
    "triumvir.orders.purged", "ended orders emptied after what their workflow keeps them", "workflow"
)
ORDERS_FORGOTTEN: Final = Counter(
    "triumvir.orders.forgotten", "purged orders whose keys are not known any more"
)
SUPERVISOR_ROWS: Final = Counter("triumvir.supervisor.rows", "overdue rows that scans read")
SUPERVISOR_PAGES: Final = Counter("triumvir.supervisor.pages", "pages that scans read")
SUPERVISOR_PASS_SECONDS: Final = Histogram(
    "triumvir.supervisor.pass.duration", "one scan for overdue orders", "s", _SECONDS
)
SUPERVISOR_PARKED: Final = Gauge(
    "triumvir.supervisor.parked", "orders whose recovery raised, tried again later and later"
)
RECOVERY_LAG: Final = Gauge(
    "triumvir.recovery.lag",
    "seconds since the oldest deadline that passed and was not seen to, as schedulers and supervisors see it",
)
COMMANDS: Final = Counter("triumvir.commands", "commands taken", "kind", "outcome")
DEAD_LETTERS: Final = Counter("triumvir.dead_letters", "messages kept as dead letters", "queue", "reason")
DEAD_LETTERS_OPEN: Final = Gauge(
    "triumvir.dead_letters.open", "dead letters that nobody has settled, as supervisors count them", "queue"
)
OLDEST_TRANSACTION: Final = Gauge(
    "triumvir.database.oldest_transaction",
    "seconds for which the oldest transaction in the database is open, as supervisors see it",
)
PAUSES: Final = Gauge(
    "triumvir.pauses", "workflows and agents that operators paused, as supervisors count them", "scope"
)
REPLAYS: Final = Counter("triumvir.replays", "replays of dead letters that were answered", "outcome")
ALERTS: Final = Counter("triumvir.alerts", "alerts raised", "kind")
STATUSES: Final = Counter("triumvir.statuses", "statuses published to clients", "status")
PUBLISHES: Final = Counter("triumvir.publishes", "publishes by what became of them", "outcome")
DELIVERIES: Final = Counter("triumvir.deliveries", "deliveries taken", "queue", "redelivered")
CONSUMERS_RESTORED: Final = Counter("triumvir.consumers.restored", "consumers subscribed again", "queue")
OUTBOX_SWEPT: Final = Counter("triumvir.outbox.swept", "outbox rows sent again after their lease lapsed")
BATCH_SIZE: Final = Histogram("triumvir.batch.size", "items handled in one transaction", "1", _SIZES, "batch")
BATCH_REPEATS: Final = Counter("triumvir.batch.repeats", "batches rolled back and run again", "reason")
COMMIT_SECONDS: Final = Histogram(
    "triumvir.commit.duration", "transactions, begin to commit", "s", _SECONDS, "batch"
)
OPERATION_CALLS: Final = Counter(
    "triumvir.operation.calls", "calls of agent operations", "operation", "outcome"
)
OPERATION_SECONDS: Final = Histogram(
    "triumvir.operation.duration", "one call of an operation", "s", _SECONDS, "operation"
)
SLOTS_BUSY: Final = Gauge("triumvir.slots.busy", "slots in use, of all agents of this process")
LOOP_FAILURES: Final = Counter("triumvir.loop.failures", "steps of background loops that raised", "loop")
LOG_LINES_LOST: Final = Counter("triumvir.log.lines.lost", "log lines that could not be written")
LOOP_LAG_SECONDS: Final = Histogram(
    "triumvir.loop.lag", "how late the event loop woke a timer", "s", _SECONDS
)

COUNTERS: Final = tuple(value for value in list(globals().values()) if isinstance(value, Counter))
GAUGES: Final = tuple(value for value in list(globals().values()) if isinstance(value, Gauge))
HISTOGRAMS: Final = tuple(value for value in list(globals().values()) if isinstance(value, Histogram))


def instrument(meter: Meter) -> None:
    """Have ``meter`` read every metric declared here."""
    for counter in COUNTERS:
        meter.create_observable_counter(counter.name, [counter.observe], description=counter.description)
    for gauge in GAUGES:
        meter.create_observable_gauge(gauge.name, [gauge.observe], description=gauge.description)
    for histogram in HISTOGRAMS:
        histogram.instrument = meter.create_histogram(
            histogram.name,
            unit=histogram.unit,
            description=histogram.description,
            explicit_bucket_boundaries_advisory=list(histogram.buckets),
        )
