-- Documents in a database of their own. Each statement says on which of the two it runs.

-- name: deposit_documents
-- On the orders database: payloads as received, with what a state record is made of. An existing one is left alone and
-- compared in a second statement. Shows the new ones.
insert into order_documents (client, order_id, payload, digest, workflow, version, priority, not_before, progress,
                             status_queue, trace)
select * from unnest(
    :clients::text[], :order_ids::text[], :payloads::text[], :digests::bytea[], :workflows::text[],
    :versions::int[], :priorities::int[], :not_before::timestamptz[], :progress::boolean[],
    :status_queues::text[], :traces::text[])
on conflict (client, order_id) do nothing
returning client, order_id;

-- name: fetch_documents
-- On the orders database: payloads by key, with what they are compared by.
select d.client, d.order_id, d.payload, d.digest
from unnest(:clients::text[], :order_ids::text[]) as k(client, order_id)
join order_documents d on d.client = k.client and d.order_id = k.order_id;

-- name: documents_after
-- On the orders database: a page of documents beyond a mark and of some age, oldest first. By that age whatever wrote
-- them has committed. The empty ones are of orders that were purged: nothing can be made of them.
select at, client, order_id, digest, workflow, version, priority, not_before, progress, status_queue, trace
from order_documents
where (at, client, order_id) > (:after::timestamptz, :after_client::text, :after_order_id::text)
  and at < clock_timestamp() - make_interval(secs => :age_seconds::float8) and payload <> ''
order by at, client, order_id limit :most::int;

-- name: document_store_id
-- On the orders database: by what name state repositories know it.
select id from document_store;

-- name: documents_elsewhere
-- On the state repository: the id of the orders database, and how far the two were compared; no row with one database.
select id, checked_at, checked_client, checked_order_id from documents_elsewhere;

-- name: pair_documents!
-- On the state repository: from now on its documents are in that database.
insert into documents_elsewhere (id) values (:id::uuid) on conflict (only_one) do nothing;

-- name: lock_document_check
-- On the state repository: the mark, for one checker at a time; no row if it moved on or somebody else has it.
select id from documents_elsewhere
where checked_at = :at::timestamptz and checked_client = :client::text and checked_order_id = :order_id::text
for no key update skip locked;

-- name: advance_document_check!
-- On the state repository: every document up to here has its state record.
update documents_elsewhere
set checked_at = :at::timestamptz, checked_client = :client::text, checked_order_id = :order_id::text;

-- name: order_digests
-- On the state repository: what orders of these keys were made of.
select o.client, o.order_id, o.digest
from unnest(:clients::text[], :order_ids::text[]) as k(client, order_id)
join orders o on o.client = k.client and o.order_id = k.order_id;

-- name: document_keys
-- On the state repository: where the documents of these orders are found; nothing is locked.
select no, client, order_id, digest from orders where no = any(:nos::bigint[]);

-- name: documents_left_here
-- On the state repository: whether documents are still there.
select exists (select from order_documents);

-- name: count_admitted
-- On the state repository: how many orders are open, the sum of what every process counted.
select coalesce(sum(open), 0)::bigint from admission where scope = 'orders';
