-- name: lock_orders
-- Locks the orders a batch is about, in key order, and says how far each has come and what time it is now. Nothing else
-- is read here: a statement that locks decides on what it saw before it waited, but for the rows that it locks.
select no, history, clock_timestamp() as now
from (select no, history from orders where no = any(:nos::bigint[]) order by no for no key update) as locked;

-- name: read_orders
-- Orders as they are now, once for each of their steps in order (or once without), and the one clock. With those that
-- were never claimed comes what their claim needs: the payload, and whether something is asked of them.
select clock_timestamp() as now,
       o.no, o.client, o.order_id, o.workflow, o.version, o.state, o.locked_by, o.fence, o.attempt, o.step, o.sent_at,
       o.complete_by, o.wake_at, o.retries, o.not_before, o.held_by, o.held_at, o.paused_at,
       o.paused_by, o.cancel_requested, o.failure_count, o.unbegun_count, o.sequence, o.history, o.progress,
       o.told_retrying, o.told_held, o.status_queue, o.trace, o.ended_at, o.budget,
       s.step_no, s.attempt, s.state, s.calls, s.effect, s.result, s.error, s.undo_state, s.undo_tries,
       s.undo_generation, s.undo_error, s.generation, s.by_hand, s.wait_left, s.undo_calls, s.calls_upto, s.undo_limit,
       s.undo_attempt, s.undo_sent_at, s.undo_complete_by, s.undo_wake_at, s.undo_retries,
       s.led_to, s.asking, s.progress,
       case when o.attempt = 0 then
           (select d.payload from order_documents d where d.client = o.client and d.order_id = o.order_id)
       end as payload,
       case when o.attempt = 0 then
           (select true from commands c
            where c.client = o.client and c.order_id = o.order_id and c.taken_at is null limit 1)
       end as asked
from orders o left join steps s on s.no = o.no
where o.no = any(:nos::bigint[]) order by o.no, s.step_no;

-- name: landed_moves
-- Of these history rows the ones that were committed, if their order still waits for what was sent with them.
select o.no
from unnest(:nos::bigint[], :ns::int[], :ats::timestamptz[], :locks::uuid[], :sent_at::timestamptz[], :retries::int[]
) as k(no, n, at, locked_by, sent_at, retries)
join orders o on o.no = k.no and o.locked_by = k.locked_by and o.sent_at = k.sent_at and o.retries = k.retries
where exists (select from transitions t where t.no = k.no and t.n = k.n and t.at = k.at)
order by o.no;

-- name: read_documents
-- The payloads of these orders; nothing is locked.
select d.client, d.order_id, d.payload
from unnest(:clients::text[], :order_ids::text[]) as k(client, order_id)
join order_documents d on d.client = k.client and d.order_id = k.order_id;

-- name: write_decisions
-- Every arrow of the lifecycle, its steps, its history, its outbox row: the one write of a batch. Orders are
-- guarded by the history number that was read: if one of them moved since, nothing at all is written.
with moved as (
    update orders o set
        state = u.state, locked_by = u.locked_by, fence = u.fence, attempt = u.attempt, step = u.step,
        sent_at = u.sent_at, complete_by = u.complete_by, wake_at = u.wake_at, retries = u.retries,
        not_before = u.not_before, held_by = u.held_by, held_at = u.held_at, paused_at = u.paused_at,
        paused_by = u.paused_by, cancel_requested = u.cancel_requested,
        failure_count = u.failure_count, unbegun_count = u.unbegun_count, sequence = u.sequence,
        history = u.history, told_retrying = u.told_retrying, told_held = u.told_held, ended_at = u.ended_at,
        budget = u.budget, touched_by = :touched_by::uuid
    from unnest(
        :nos::bigint[], :history_before::int[], :states::text[], :locked_by::uuid[], :fences::bigint[],
        :attempts::int[], :steps::smallint[], :sent_at::timestamptz[], :complete_by::timestamptz[],
        :wake_at::timestamptz[], :retries::int[], :not_before::timestamptz[], :held_by::text[],
        :held_at::timestamptz[], :paused_at::timestamptz[], :paused_by::text[],
        :cancel_requested::boolean[], :failure_counts::int[], :unbegun_counts::int[], :sequences::int[],
        :histories::int[], :told_retrying::boolean[], :told_held::boolean[], :ended_at::timestamptz[],
        :budgets::int[]
    ) as u(no, history_before, state, locked_by, fence, attempt, step, sent_at, complete_by, wake_at, retries,
           not_before, held_by, held_at, paused_at, paused_by, cancel_requested, failure_count, unbegun_count,
           sequence, history, told_retrying, told_held, ended_at, budget)
    where o.no = u.no and o.history = u.history_before
    returning o.no
), stepped as (
    insert into steps as s (no, step_no, attempt, state, calls, effect, result, error, undo_state, undo_tries,
                            undo_generation, undo_error, generation, by_hand, wait_left, undo_calls, calls_upto,
                            undo_limit, undo_attempt, undo_sent_at, undo_complete_by, undo_wake_at, undo_retries,
                            led_to, asking, progress)
    select * from unnest(
        :step_orders::bigint[], :step_nos::smallint[], :step_attempts::int[], :step_states::text[], :calls::int[],
        :effects::text[], :results::text[], :errors::text[], :undo_states::text[], :undo_tries::int[],
        :undo_generations::int[], :undo_errors::text[], :step_generations::int[], :by_hands::boolean[],
        :waits_left::interval[], :undo_calls::int[], :calls_upto::int[], :undo_limits::int[], :undo_attempts::int[],
        :undo_sent_at::timestamptz[], :undo_complete_by::timestamptz[], :undo_wake_at::timestamptz[],
        :undo_retries::int[], :led_to::smallint[], :asking::boolean[], :progress::text[])
    on conflict (no, step_no) do update set
        attempt = excluded.attempt, state = excluded.state, calls = excluded.calls, effect = excluded.effect,
        result = excluded.result, error = excluded.error, undo_state = excluded.undo_state,
        undo_tries = excluded.undo_tries, undo_generation = excluded.undo_generation,
        undo_error = excluded.undo_error, generation = excluded.generation, by_hand = excluded.by_hand,
        wait_left = excluded.wait_left,
        undo_calls = excluded.undo_calls, calls_upto = excluded.calls_upto, undo_limit = excluded.undo_limit,
        undo_attempt = excluded.undo_attempt, undo_sent_at = excluded.undo_sent_at,
        undo_complete_by = excluded.undo_complete_by, undo_wake_at = excluded.undo_wake_at,
        undo_retries = excluded.undo_retries, led_to = excluded.led_to, asking = excluded.asking,
        progress = excluded.progress
), logged as (
    insert into transitions (no, n, at, who, from_state, to_state, why, step_no, status, sequence,
                             account)
    select u.no, u.n, u.at, :who::text, u.from_state, u.to_state, u.why, u.step_no, u.status, u.sequence, u.account
    from unnest(:log_orders::bigint[], :ns::int[], :ats::timestamptz[], :from_states::text[], :to_states::text[],
                :whys::text[], :log_steps::smallint[], :statuses::text[], :log_sequences::int[],
                :accounts::text[]
    ) as u(no, n, at, from_state, to_state, why, step_no, status, sequence, account)
), counted as (
    insert into admission as a (scope, instance, open)
    select 'orders', :touched_by::uuid, :opened::bigint where :opened::bigint <> 0
    on conflict (scope, instance) do update set open = a.open + excluded.open
), confirmed as (
    delete from outbox where id = any(:confirmed::bigint[])
), sent as (
    insert into outbox (lease, refs)
    select clock_timestamp() + make_interval(secs => :lease_seconds::float8), :refs::text
    where :refs::text is not null
    returning id
)
select all_or_none(cardinality(:nos::bigint[]), (select count(*) from moved)), (select id from sent) as outbox_id;
