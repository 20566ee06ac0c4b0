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

-- name: recovery_outlook
-- Supervisors that live; re-opened orders that wait to be claimed, counted up to a limit; and for how many seconds
-- the oldest deadline that passed has not been seen to.
select (select count(*) from instances where service = 'supervisor' and lease_until > clock_timestamp()) as supervisors,
       (select count(*) from (
            select from orders
            where held_by is null and locked_by is null and state in ('pending', 'compensating') and attempt > 0
              and coalesce(not_before, '-infinity') <= statement_timestamp()
            order by coalesce(not_before, '-infinity') limit :most::int) as waiting) as waiting,
       (select coalesce(extract(epoch from clock_timestamp() - min(complete_by)), 0)::float8
        from orders where locked_by is not null and complete_by < statement_timestamp()) as lag;

-- name: recovery_lag
-- For how many seconds the oldest deadline that passed has not been seen to.
select coalesce(extract(epoch from clock_timestamp() - min(complete_by)), 0)::float8
from orders where locked_by is not null and complete_by < statement_timestamp();

-- name: undos_out
-- Of locked orders that are being undone, every undo that their attempt may wait for: one of them, or several.
select s.no, s.step_no
from orders o join steps s on s.no = o.no
where o.no = any(:nos::bigint[]) and o.state = 'compensating' and s.undo_state = 'undoing'
  and (s.step_no = o.step or (s.undo_attempt = o.attempt and s.undo_complete_by is not null))
order by s.no, s.step_no;
