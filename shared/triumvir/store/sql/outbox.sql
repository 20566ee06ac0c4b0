-- name: add_to_outbox
-- What this commit still has to publish; what earlier ones had to is confirmed, and goes.
with gone as (delete from outbox where id = any(:confirmed::bigint[]))
insert into outbox (lease, refs)
values (clock_timestamp() + make_interval(secs => :lease_seconds::float8), :refs::text) returning id;

-- name: delete_from_outbox!
-- Everything these commits had to publish is confirmed.
delete from outbox where id = any(:ids::bigint[]);

-- name: lease_outbox
-- Rows whose publisher fell silent, leased to this sweep.
with lapsed as (
    select id from outbox where lease < clock_timestamp()
    order by lease limit :most::int for update skip locked
)
update outbox o set lease = clock_timestamp() + make_interval(secs => :lease_seconds::float8)
from lapsed where o.id = lapsed.id
returning o.id, o.refs;

-- name: put_off_outbox!
-- A row that cannot be read: not again before so many seconds.
update outbox set lease = clock_timestamp() + make_interval(secs => :seconds::float8) where id = :id::bigint;

-- name: read_transitions
-- History rows by key, with the order they belong to.
select o.no, o.client, o.order_id, o.workflow, o.version, o.status_queue, o.trace,
       t.n, t.at, t.why, t.step_no, t.status, t.sequence, t.account,
       case when t.status = 'completed' then
           (select s.result from steps s where s.no = o.no and s.result is not null and s.state = 'completed'
            order by s.step_no desc limit 1) end as result
from unnest(:nos::bigint[], :ns::int[]) as k(no, n)
join transitions t on t.no = k.no and t.n = k.n
join orders o on o.no = t.no;

-- name: ageing
-- Rows whose lease lapsed and that nobody swept: how many, and for how long (seconds).
select count(*) as unsent, coalesce(extract(epoch from clock_timestamp() - min(lease)), 0)::float8 as seconds
from outbox where lease < clock_timestamp();
