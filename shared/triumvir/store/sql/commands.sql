-- name: insert_commands
-- Taken down without a look at the order: looking first would lose a cancel that crosses its submission. A message id is
-- one within its order: kept as `order_id message_id` (an order id has no blank), so that the constraint, which releases
-- before this one name in their inserts, stands. Pauses and signals are written as what the release before refuses. Shows what is new.
insert into commands (client, order_id, message_id, kind, data, action)
select u.client, u.order_id, u.order_id || ' ' || u.message_id,
       case when u.kind in ('pause', 'unpause', 'signal') then 'retry' else u.kind end, u.data,
       case when u.kind in ('pause', 'unpause', 'signal') then u.kind end
from unnest(:clients::text[], :order_ids::text[], :message_ids::text[], :kinds::text[], :data::text[])
     as u(client, order_id, message_id, kind, data)
on conflict (client, message_id) do nothing
returning client, order_id, substr(message_id, length(order_id) + 2) as message_id;

-- name: orders_with_commands
-- A page of the commands that wait, each with its order if that has come: those without must not hide the others.
select c.id, o.no from (
    select id, client, order_id from commands where taken_at is null and id > :after::bigint
    order by id limit :most::int
) c left join orders o on o.client = c.client and o.order_id = c.order_id
order by c.id;

-- name: read_commands
-- What is asked of these (locked) orders and not yet taken.
select c.id, o.no, coalesce(c.action, c.kind) as kind, c.data
from orders o join commands c on c.client = o.client and c.order_id = o.order_id
where o.no = any(:nos::bigint[]) and c.taken_at is null order by c.id;

-- name: fence_off
-- Before an operator does by hand what failed in these (locked, resting) orders: no agent may begin it any more; if it
-- is an undo, neither the step itself. Shows for which of them one may still be calling.
insert into inbox as i (no, step_no, direction, fence, state, refuse_upto)
select o.no, o.step, f.direction, 0, 'fenced', f.upto
from orders o cross join lateral (
    select 'do', case o.state when 'error' then o.fence else 9223372036854775807 end
    union all
    select 'undo', o.fence where o.state = 'compensation_failed'
) as f(direction, upto)
where o.no = any(:nos::bigint[]) and o.state in ('error', 'compensation_failed') and o.step is not null
order by o.no, f.direction
on conflict (no, step_no, direction) do update set refuse_upto = greatest(i.refuse_upto, excluded.refuse_upto)
returning no, (state = 'running' or doubt) and complete_by > clock_timestamp() as under_way;

-- name: take_commands!
update commands set taken_at = clock_timestamp() where id = any(:ids::bigint[]);

-- name: forget_commands!
-- Commands that were taken, and those whose order never came.
delete from commands where at < clock_timestamp() - make_interval(hours => 24)
   and (taken_at is not null or not exists (
        select from orders o where o.client = commands.client and o.order_id = commands.order_id));
