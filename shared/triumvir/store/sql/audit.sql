-- What an auditor compares with the outside world. Nothing here locks or writes.

-- name: audit_orders
-- Every state record.
select no, client, order_id, digest, workflow, version, state, locked_by is not null as locked, held_by, fence, attempt,
       sequence, history, budget, purged_at is not null as purged, document_left
from orders order by no;

-- name: audit_steps
-- Every step record, which is the compensation log too.
select no, step_no, attempt, state, calls, effect, undo_state, undo_generation, by_hand, undo_limit, led_to
from steps
order by no, step_no;

-- name: audit_transitions
-- The whole history.
select no, n, at, from_state, to_state, why, step_no, status, sequence from transitions order by no, n, at;

-- name: audit_inbox
-- What agents wrote down of their calls.
select no, step_no, direction, fence, generation, state, calls, refuse_upto from inbox
order by no, step_no, direction;

-- name: audit_documents
-- Every document by key, in whichever database they are.
select client, order_id, digest, payload = '' as empty from order_documents;

-- name: audit_dead_letters
-- What was set aside, and what was to become of it; a replayed one with its body, for the order that it names.
select id, queue, reason, detail, client, message_id, type, settlement,
       case when settlement = 'replayed' then body end as body
from dead_letters order by at;

-- name: audit_leftovers
-- What must be gone, or add up, once nothing moves.
select (select count(*) from outbox) as outbox,
       (select count(*) from commands where taken_at is null) as commands,
       (select count(*) from inbox where reply_due is not null) as replies,
       (select count(*) from deliveries) as marks,
       (select count(*) from dead_letters where replay_asked_at is not null) as replays,
       (select coalesce(sum(open), 0)::bigint from admission) as admitted,
       (select count(*) from orders where ended_at is null) as open;

-- name: audit_idle_sessions
-- Sessions of this project that hold a transaction open without doing anything.
select application_name, state, extract(epoch from clock_timestamp() - state_change)::float8 as seconds
from pg_stat_activity
where datname = current_database() and application_name like 'triumvir %'
  and state in ('idle in transaction', 'idle in transaction (aborted)')
  and state_change < clock_timestamp() - interval '1 second';
