"""Every log event by name. A log line says *what* by one of these and *which* by its fields."""

from __future__ import annotations

from typing import Final

# the life of a process
SERVICE_STARTING: Final = "service_starting"
SERVICE_STARTED: Final = "service_started"
SERVICE_DRAINING: Final = "service_draining"
SERVICE_DRAIN_INCOMPLETE: Final = "service_drain_incomplete"
SERVICE_STOPPED: Final = "service_stopped"
SERVICE_FAILED: Final = "service_failed"
SERVICE_STALLED: Final = "service_stalled"
SERVICE_KILLED: Final = "service_killed"
CONFIGURATION_REFUSED: Final = "configuration_refused"
HEALTH_LISTENING: Final = "health_listening"
LOOP_FAILED: Final = "loop_failed"
LOOP_RECOVERED: Final = "loop_recovered"
TASK_FAILED: Final = "task_failed"
DRAIN_STEP_FAILED: Final = "drain_step_failed"

# broker and database
BROKER_CONNECTED: Final = "broker_connected"
BROKER_LOST: Final = "broker_lost"
BROKER_CLOSE_INCOMPLETE: Final = "broker_close_incomplete"
CONSUMER_LOST: Final = "consumer_lost"
CONSUMER_RESTORED: Final = "consumer_restored"
QUEUE_RESTORED: Final = "queue_restored"
DATABASE_LOST: Final = "database_lost"
DATABASE_FOUND: Final = "database_found"
PUBLISH_UNCONFIRMED: Final = "publish_unconfirmed"
MESSAGE_REFUSED: Final = "message_refused"
MESSAGE_RETURNED: Final = "message_returned"
ACKNOWLEDGEMENT_LOST: Final = "acknowledgement_lost"
BATCH_REPEATED: Final = "batch_repeated"
BATCH_SPLIT: Final = "batch_split"

# the life of an order
ORDER_ACCEPTED: Final = "order_accepted"
DOCUMENT_ODD: Final = "document_odd"
ACCEPTANCE_COMPLETED: Final = "acceptance_completed"
ORDER_REJECTED: Final = "order_rejected"
ORDER_CLAIMED: Final = "order_claimed"
ORDER_HELD: Final = "order_held"
ORDER_REOPENED: Final = "order_reopened"
ORDER_HALTED: Final = "order_halted"
ORDER_ENDED: Final = "order_ended"
REQUEST_SENT: Final = "request_sent"
REQUEST_RESENT: Final = "request_resent"
REPLY_APPLIED: Final = "reply_applied"
REPLY_LATE: Final = "reply_late"
DECISION_FAILED: Final = "decision_failed"
DEFINITION_MISSING: Final = "definition_missing"
MESSAGE_DEAD_LETTERED: Final = "message_dead_lettered"
MESSAGE_QUARANTINED: Final = "message_quarantined"
ALERT_RAISED: Final = "alert_raised"
OUTBOX_SWEPT: Final = "outbox_swept"
OUTBOX_KEPT: Final = "outbox_kept"

# clients
STATUS_UNREADABLE: Final = "status_unreadable"
STATUS_QUEUE_SHARED: Final = "status_queue_shared"
QUESTION_UNSENT: Final = "question_unsent"

# agents
OPERATION_FAILED: Final = "operation_failed"
REQUEST_FAILED: Final = "request_failed"
REQUEST_SUSPECTED: Final = "request_suspected"
INBOX_UNREACHABLE: Final = "inbox_unreachable"
OPERATION_REFUSED: Final = "operation_refused"
INSTANCE_LEASE_LOST: Final = "instance_lease_lost"
