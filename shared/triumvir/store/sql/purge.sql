-- Ended orders past their retention are emptied, and forgotten once their key need not be known any more.

-- name: purgeable_orders
-- Ended orders that are older than their workflow version keeps them, or than `default_days` where it says nothing
-- (null: kept); the oldest of each version first, up to a batch. An agent may still begin a request that comes once more
-- before its deadline: until then its inbox row is needed. Nothing is locked.
select due.no, due.ended_at
from (select name, version, coalesce((definition::json ->> 'retention_days')::int, :default_days::int) as days
      from workflows) w
cross join lateral (
    select o.no, o.ended_at from orders o
    where o.workflow = w.name and o.version = w.version and o.ended_at is not null and o.purged_at is null
      and o.ended_at < statement_timestamp() - make_interval(days => w.days) and o.paused_at is null
      -- an aggregate, so that it is looked up for each order: joined, the whole inbox is read
      and coalesce((select max(i.complete_by) from inbox i where i.no = o.no) <= statement_timestamp(), true)
    order by o.ended_at limit :most::int
) due
where w.days is not null
limit :most::int;

-- name: lock_purgeable
-- Locks those that did not move since they were read and that nobody else is at.
select o.no, o.workflow from unnest(:nos::bigint[], :ended_at::timestamptz[]) as u(no, ended_at)
join orders o on o.no = u.no and o.ended_at = u.ended_at and o.purged_at is null and o.paused_at is null
order by o.no for no key update of o skip locked;

-- name: purge_orders!
-- Everything of these (locked, ended) orders goes but their key, digest, state and last status. With documents in
-- another database (`elsewhere`) the payloads are left to a step of their own. The history number rises, so that what a
-- process remembers of the order is known to be old.
with last_told as (
    select distinct on (t.no) t.no, t.n, t.at from transitions t
    where t.no = any(:nos::bigint[]) and t.sequence is not null order by t.no, t.n desc
), no_history as (
    delete from transitions t where t.no = any(:nos::bigint[])
       and not exists (select from last_told l where l.no = t.no and l.n = t.n and l.at = t.at)
), answered as (
    update transitions t set why = 'its data was purged', step_no = null, account = null
    from last_told l where t.no = l.no and t.n = l.n and t.at = l.at
), no_steps as (
    delete from steps where no = any(:nos::bigint[])
), no_inbox as (
    -- without a deadline: it holds no data, and is what refuses a request that nobody has begun
    delete from inbox where no = any(:nos::bigint[]) and complete_by is not null
), no_marks as (
    delete from aged_orders where no = any(:nos::bigint[])
), purged as (
    update orders set purged_at = clock_timestamp(), document_left = :elsewhere::boolean, history = history + 1,
           trace = null, budget = null, touched_by = null
    where no = any(:nos::bigint[])
    returning no, client, order_id, history, state, purged_at, document_left
), emptied as (
    update order_documents d set payload = '' from purged p
    where not p.document_left and d.client = p.client and d.order_id = p.order_id
)
insert into transitions (no, n, at, who, from_state, to_state, why)
select no, history, purged_at, :who::text, state, state, 'purged' from purged;

-- name: lock_documents_left
-- On the state repository: purged orders whose payloads are still to be emptied.
select no, client, order_id from orders where document_left order by no limit :most::int
for no key update skip locked;

-- name: empty_documents!
-- On the orders database: nothing of these payloads stays.
update order_documents d set payload = ''
from unnest(:clients::text[], :order_ids::text[]) as k(client, order_id)
where d.client = k.client and d.order_id = k.order_id and d.payload <> '';

-- name: documents_emptied!
-- On the state repository: they are.
update orders set document_left = false where no = any(:nos::bigint[]);

-- name: lock_forgettable
-- Purged orders whose key was known for long enough; locked, those of others left alone.
select no, client, order_id from orders
where purged_at < statement_timestamp() - make_interval(secs => :seconds::float8) and not document_left
order by purged_at limit :most::int
for no key update skip locked;

-- name: delete_documents!
-- Wherever they are: the documents of these keys.
delete from order_documents d using unnest(:clients::text[], :order_ids::text[]) as k(client, order_id)
where d.client = k.client and d.order_id = k.order_id;

-- name: forget_orders!
-- These (locked, purged) orders, and what came to them since.
with no_history as (
    delete from transitions where no = any(:nos::bigint[])
), no_steps as (
    delete from steps where no = any(:nos::bigint[])
), no_inbox as (
    delete from inbox where no = any(:nos::bigint[])
), no_marks as (
    delete from aged_orders where no = any(:nos::bigint[])
)
delete from orders where no = any(:nos::bigint[]) and purged_at is not null;

-- name: count_supervisors
-- Those that live.
select count(*) from instances where service = 'supervisor' and lease_until > clock_timestamp();
