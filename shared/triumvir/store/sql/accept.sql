-- name: read_digests
-- What is stored under these keys. (The loser of an insert does not see the winner in the same statement.)
select d.client, d.order_id, d.digest
from unnest(:clients::text[], :order_ids::text[]) as k(client, order_id)
join order_documents d on d.client = k.client and d.order_id = k.order_id;

-- name: keep_documents!
-- The documents of orders that were created just now, if they are missing.
insert into order_documents (client, order_id, payload, digest)
select * from unnest(:clients::text[], :order_ids::text[], :payloads::text[], :digests::bytea[])
on conflict (client, order_id) do nothing;

-- name: insert_orders
-- (none) -> pending, with the history row, the status of it and the count of open orders. Returns the new ones.
-- With `with_documents` the payloads are written as received, and new is whose document is new: one that exists is left
-- alone, and compared in a second statement. With `lease_seconds` comes the outbox row that tells of them, and those of
-- `confirmed` go. With `all_or_none` nothing stands unless all of them are new, there is room, and the workflows' newest
-- versions are what the caller takes them for.
with outdated as (
    select from unnest(:newest_names::text[], :newest_versions::int[]) as k(name, version)
    where :all_or_none::boolean
      and k.version is distinct from (select max(w.version) from workflows w where w.name = k.name)
    union all
    select where :all_or_none::boolean
             and (select coalesce(sum(open), 0) from admission where scope = 'orders') >= :most_open::bigint
), documents as (
    insert into order_documents (client, order_id, payload, digest)
    select u.client, u.order_id, u.payload, u.digest
    from unnest(:clients::text[], :order_ids::text[], :payloads::text[], :digests::bytea[])
         as u(client, order_id, payload, digest)
    where :with_documents::boolean and not exists (select from outdated)
    on conflict (client, order_id) do nothing
    returning client, order_id
), created as (
    insert into orders (client, order_id, workflow, version, digest, rank, not_before, progress, status_queue,
                        trace, sequence, history)
    select u.client, u.order_id, u.workflow, u.version, u.digest,
           (extract(epoch from clock_timestamp()) * 1000000)::bigint - u.priority * :rank_per_priority::bigint,
           u.not_before, u.progress, u.status_queue, u.trace, 1, 1
    from unnest(
        :clients::text[], :order_ids::text[], :workflows::text[], :versions::int[], :digests::bytea[],
        :priorities::int[], :not_before::timestamptz[], :progress::boolean[], :status_queues::text[],
        :traces::text[]
    ) as u(client, order_id, workflow, version, digest, priority, not_before, progress, status_queue, trace)
    where not :with_documents::boolean
       or (u.client, u.order_id) in (select d.client, d.order_id from documents d)
    on conflict (client, order_id) do nothing
    returning no, client, order_id, received_at
), logged as (
    insert into transitions (no, n, at, who, from_state, to_state, why, status, sequence)
    select no, 1, received_at, :who::text, 'pending', 'pending', 'received', 'received', 1 from created
), counted as (
    insert into admission as a (scope, instance, open)
    select 'orders', :instance::uuid, count(*) from created having count(*) > 0
    on conflict (scope, instance) do update set open = a.open + excluded.open
), confirmed as (
    delete from outbox where id = any(:confirmed::bigint[])
), sent as (
    insert into outbox (lease, refs)
    select clock_timestamp() + make_interval(secs => :lease_seconds::float8),
           json_agg(json_build_array('status', no, 1))::text
    from created where :lease_seconds::float8 is not null having count(*) > 0
    returning id
)
select whole.orders, c.no, c.client, c.order_id, c.received_at, (select id from sent) as outbox_id
from (select case when :all_or_none::boolean then
                 all_or_none(cardinality(:clients::text[]), (select count(*) from created))
             end as orders) as whole
left join created c on true;

-- name: last_statuses
-- The present status of these orders: the newest that was published.
select o.no, o.client, o.order_id, o.workflow, o.version, o.status_queue, o.trace, o.digest,
       t.n, t.at, t.why, t.step_no, t.status, t.sequence, t.account,
       case when t.status = 'completed' then
           (select s.result from steps s where s.no = o.no and s.result is not null and s.state = 'completed'
            order by s.step_no desc limit 1) end as result
from unnest(:clients::text[], :order_ids::text[]) as k(client, order_id)
join orders o on o.client = k.client and o.order_id = k.order_id
join lateral (
    select * from transitions where no = o.no and sequence is not null order by n desc limit 1
) t on true;

-- name: statuses_from
-- The statuses of one order from a sequence number on, oldest first.
select o.no, o.client, o.order_id, o.workflow, o.version, o.status_queue, o.trace,
       t.n, t.at, t.why, t.step_no, t.status, t.sequence, t.account,
       case when t.status = 'completed' then
           (select s.result from steps s where s.no = o.no and s.result is not null and s.state = 'completed'
            order by s.step_no desc limit 1) end as result
from orders o join transitions t on t.no = o.no
where o.client = :client::text and o.order_id = :order_id::text and t.sequence >= :first::int
order by t.n;

-- name: look_at_the_door
-- The workflows that can be ordered, and how many orders are open: the sum of what every process counted.
select name, version,
       (select coalesce(sum(open), 0)::bigint from admission where scope = 'orders') as open_orders
from workflows;

-- name: fold_admission!
-- The rows of processes that are gone, into this process' own.
with gone as (
    delete from admission a where a.scope = 'orders' and a.instance <> :instance::uuid
       and not exists (select from instances i where i.id = a.instance)
    returning a.open
), total as (select coalesce(sum(open), 0)::bigint as open from gone)
insert into admission as a (scope, instance, open)
select 'orders', :instance::uuid, total.open from total where total.open <> 0
on conflict (scope, instance) do update set open = a.open + excluded.open;
