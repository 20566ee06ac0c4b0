-- name: count_live_orders
-- Orders that live, by the version that they are pinned to, their state, and the step that they are at: the one that is
-- undone, or the first one that is neither completed nor skipped. Each branch reads a partial index of live orders only.
with live as (
    select no, workflow, version, state, step from orders
    where held_by is null and locked_by is null and state in ('pending', 'compensating')
    union all select no, workflow, version, state, step from orders where locked_by is not null
    union all select no, workflow, version, state, step from orders where held_by is not null
)
select l.workflow, l.version, l.state,
       case when l.state = 'compensating' then l.step
            else (select 1 + count(*) from steps s where s.no = l.no and s.state in ('completed', 'skipped'))
       end::int as step_no,
       count(*)::int as orders
from live l
where l.workflow = any(:workflows::text[])
group by 1, 2, 3, 4 order by 1, 2, 4, 3;

-- name: count_resting_orders
-- Orders that rest until an operator moves them, by version and state. Reads the whole table: for people, now and then.
select workflow, version, state, step::int as step_no, count(*)::int as orders
from orders
where state in ('error', 'compensation_failed') and workflow = any(:workflows::text[])
group by 1, 2, 3, 4 order by 1, 2, 4, 3;

-- name: offered_operations
-- What live agents offer, as agent/operation.
select distinct unnest(operations) as operation from instances
where lease_until > clock_timestamp() order by 1;
