-- name: expired_orders
-- Locked orders past their deadline and grace, a page at a time.
select no, state, locked_by, complete_by, step, fence
from orders
where locked_by is not null
  and complete_by < clock_timestamp() - make_interval(secs => :grace_seconds::float8)
  and (complete_by, no) > (:after::timestamptz, :after_no::bigint)
order by complete_by, no limit :most::int;

-- name: lock_expired
-- Locks those that are still exactly as they were read: state, lock and deadline.
select o.no from unnest(:nos::bigint[], :states::text[], :locks::uuid[], :deadlines::timestamptz[])
    as u(no, state, locked_by, complete_by)
join orders o on o.no = u.no and o.state = u.state and o.locked_by = u.locked_by and o.complete_by = u.complete_by
order by o.no for no key update of o skip locked;
