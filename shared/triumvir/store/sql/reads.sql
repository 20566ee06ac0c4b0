-- What operators look at. Nothing here locks or writes.

-- name: list_orders
-- The newest orders that match; a filter that is null matches all.
select o.client, o.order_id, o.workflow, o.version, o.state, o.attempt, o.step, o.failure_count, o.held_by,
       o.held_at, o.paused_at, o.paused_by,
       o.locked_by is not null as locked,
       exists (select from steps s where s.no = o.no and s.step_no = o.step and s.state = 'waiting'
               and o.state = 'processing') as waiting,
       o.complete_by, o.not_before, o.received_at, o.ended_at
from orders o
where (:state::text is null or o.state = :state::text)
  and (:client::text is null or o.client = :client::text)
  and (:workflow::text is null or o.workflow = :workflow::text)
  and (not :held::boolean or o.held_by is not null or o.paused_at is not null)
order by o.no desc limit :most::int;

-- name: show_order
-- One order with its definition, and the clock that its deadlines are meant by.
select o.no, o.client, o.order_id, o.workflow, o.version, o.state, o.locked_by, o.touched_by, o.fence, o.attempt,
       o.step, o.sent_at, o.complete_by, o.wake_at, o.retries, o.not_before, o.held_by, o.held_at, o.paused_at, o.paused_by,
       o.cancel_requested, o.failure_count, o.sequence, o.history, o.status_queue, o.trace, o.received_at, o.ended_at,
       o.budget, o.purged_at, w.definition, nullif(d.payload, '') as payload,
       clock_timestamp() as now
from orders o left join workflows w on w.name = o.workflow and w.version = o.version
left join order_documents d on d.client = o.client and d.order_id = o.order_id
where o.client = :client::text and o.order_id = :order_id::text;

-- name: show_steps
-- The steps that were dispatched at least once, with what the agents' inbox knows of their calls.
select s.step_no, s.attempt, s.state, greatest(s.calls, coalesce(i.calls, 0)) as calls, s.effect, s.result, s.error,
       s.undo_state, s.undo_tries, s.undo_error, s.by_hand, greatest(s.undo_calls, coalesce(u.calls, 0)) as undo_calls,
       s.undo_limit
from steps s
left join inbox i on i.no = s.no and i.step_no = s.step_no and i.direction = 'do'
left join inbox u on u.no = s.no and u.step_no = s.step_no and u.direction = 'undo'
where s.no = :no::bigint order by s.step_no;

-- name: show_history
-- Everything that happened to one order, oldest first.
select n, at, who, from_state, to_state, why, step_no, status, sequence
from transitions where no = :no::bigint order by n;

-- name: show_commands
-- What was asked of one order and not yet taken.
select coalesce(action, kind) as kind, data, at,
       case when starts_with(message_id, order_id || ' ') then substr(message_id, length(order_id) + 2)
            else message_id end as message_id
from commands
where client = :client::text and order_id = :order_id::text and taken_at is null order by id;

-- name: is_command_taken
-- Whether a scheduler has taken this command.
select taken_at is not null from commands where client = :client::text and message_id = :order_id::text || ' ' || :message_id::text;

-- name: list_dead_letters
-- The newest dead letters that match; bodies stay where they are.
select id, queue, reason, detail, client, message_id, type, correlation_id, octet_length(body) as bytes, at,
       settlement, settled_at, replay_asked_at
from dead_letters
where (:settled::boolean or settlement is null)
  and (:queue::text is null or queue = :queue::text) and (:client::text is null or client = :client::text)
  and (:reason::text is null or reason = :reason::text)
order by at desc limit :most::int;

-- name: show_dead_letters
-- Dead letters whose id begins like this; two rows mean that more of the id is needed.
select id, queue, reason, detail, client, message_id, type, correlation_id, reply_to, content_type, headers, body, at,
       settlement, settled_at, replay_asked_at
from dead_letters where id::text like :prefix::text || '%' order by id limit 2;

-- name: show_dead_letter_log
-- What was done to one dead letter, oldest first.
select n, at, who, what, note from dead_letter_log where letter = :id::uuid order by n;

-- name: show_accepted_order
-- What an accepted submission became.
select workflow, version, state, received_at from orders
where client = :client::text and order_id = :order_id::text;

-- name: list_workflows
-- Every version that was applied.
select name, version, definition, at from workflows order by name, version;
