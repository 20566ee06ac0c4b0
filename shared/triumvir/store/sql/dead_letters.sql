-- name: insert_dead_letters!
insert into dead_letters (id, queue, reason, detail, client, message_id, type, correlation_id, reply_to, headers,
                          body)
select * from unnest(:ids::uuid[], :queues::text[], :reasons::text[], :details::text[], :clients::text[],
                     :message_ids::text[], :types::text[], :correlation_ids::text[], :reply_to::text[],
                     :headers::text[], :bodies::bytea[])
on conflict (id) do nothing;

-- name: read_dead_letters
select id, queue, reason, detail, client, message_id, type, correlation_id, reply_to, headers, body, at
from dead_letters where id = any(:ids::uuid[]);

-- name: known_dead_letters
select id from dead_letters where id = any(:ids::uuid[]);

-- name: mark_delivery
-- One more try at a delivery that came back.
insert into deliveries as d (queue, hash, marks) values (:queue::text, :hash::bytea, 1)
on conflict (queue, hash) do update set marks = d.marks + 1 returning marks;

-- name: unmark_delivery!
delete from deliveries where queue = :queue::text and hash = :hash::bytea;

-- name: forget_marks!
delete from deliveries where at < clock_timestamp() - make_interval(hours => 24);
