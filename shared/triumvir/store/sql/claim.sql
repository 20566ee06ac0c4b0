-- name: claim_candidates
-- Claimable orders, locked, fair by client: a few of each, by rank. pending | compensating -> (decided next)
-- Clients come in a random order: with room for a few orders only, the first by name would have it all.
with recursive waiting(client) as (
    (select client from orders
     where held_by is null and locked_by is null and state in ('pending', 'compensating')
     order by client limit 1)
    union all
    select (select o.client from orders o
            where o.held_by is null and o.locked_by is null and o.state in ('pending', 'compensating')
              and o.client > w.client
            order by o.client limit 1)
    from waiting w where w.client is not null
), clients as (
    select client from waiting where client is not null
), share as (
    select greatest(1, (:most::int + count(*) - 1) / greatest(count(*), 1)) as each_client from clients
)
select candidate.no, candidate.client
from (select client from clients order by random()) as turn cross join lateral (
    select o.no, o.client from orders o
    where o.client = turn.client
      and o.held_by is null and o.locked_by is null and o.state in ('pending', 'compensating')
      and (o.not_before is null or o.not_before <= clock_timestamp())
    order by o.rank
    limit (select each_client from share)
    for no key update skip locked
) as candidate
limit :most::int;

-- name: begun_candidates
-- Claimable orders that an agent was called for before, locked, the longest due first: re-opened, taken out of a hold,
-- or to be undone. Which agent they need is not that of a first step. pending | compensating -> (decided next)
select no, client from orders
where held_by is null and locked_by is null and state in ('pending', 'compensating') and attempt > 0
  and coalesce(not_before, '-infinity') <= statement_timestamp()
order by coalesce(not_before, '-infinity') limit :most::int
for no key update skip locked;

-- name: begun_waits
-- Whether there are such orders.
select exists (
    select from orders
    where held_by is null and locked_by is null and state in ('pending', 'compensating') and attempt > 0
      and coalesce(not_before, '-infinity') <= statement_timestamp()
);

-- name: due_timers
-- Requests whose re-send is due, locked.
select no from orders where wake_at <= clock_timestamp()
order by wake_at limit :most::int for no key update skip locked;

-- name: next_timer
-- Seconds until the next re-send is due, or null.
select extract(epoch from min(wake_at) - clock_timestamp())::float8 from orders where wake_at is not null;

-- name: requests_under_way
-- What is waited for now, by step: the measure of every agent's window. Of an order that is undone, each undo under way.
-- One that an earlier release has sent stands in the order's row alone.
select workflow, version, step, count(*) as requests
from orders where locked_by is not null and complete_by > clock_timestamp() and state <> 'compensating'
group by 1, 2, 3
union all
select o.workflow, o.version, s.step_no, count(*)
from orders o join steps s on s.no = o.no
where o.locked_by is not null and o.complete_by > clock_timestamp() and o.state = 'compensating'
  and s.undo_state = 'undoing'
  and ((s.undo_attempt = o.attempt and s.undo_complete_by > clock_timestamp())
       or (s.undo_attempt <> o.attempt and s.step_no = o.step))
group by 1, 2, 3;

-- name: held_reasons
-- The distinct reasons for holds (a loose index scan).
with recursive reasons(held_by) as (
    (select held_by from orders where held_by is not null order by held_by limit 1)
    union all
    select (select o.held_by from orders o where o.held_by > r.held_by order by o.held_by limit 1)
    from reasons r where r.held_by is not null
)
select held_by from reasons where held_by is not null;

-- name: count_held
-- How many orders each reason holds; the index has them all.
select held_by, count(*) as orders from orders where held_by is not null group by held_by;

-- name: release_held
-- Lifts a hold from so many orders, by rank; the claim finds the next reason if there is one. They are due from now on.
with chosen as (
    select no from orders where held_by = :reason::text
    order by rank limit :most::int for no key update skip locked
)
update orders o set held_by = null, not_before = greatest(o.not_before, clock_timestamp())
from chosen c where o.no = c.no and o.held_by = :reason::text
returning o.no;
