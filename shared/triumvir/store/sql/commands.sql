-- name: insert_commands!
-- Taken down without a look at the order: looking first would lose a cancel that crosses its submission.
insert into commands (client, order_id, message_id, kind, data)
select * from unnest(:clients::text[], :order_ids::text[], :message_ids::text[], :kinds::text[], :data::text[])
on conflict (client, message_id) do nothing;

-- name: orders_with_commands
-- A page of the commands that wait, each with its order if that has come: those without must not hide the others.
select c.id, o.no from (
    select id, client, order_id from commands where taken_at is null and id > :after::bigint
    order by id limit :most::int
) c left join orders o on o.client = c.client and o.order_id = c.order_id
order by c.id;

-- name: read_commands
-- What is asked of these (locked) orders and not yet taken.
select c.id, o.no, c.kind, c.data
from orders o join commands c on c.client = o.client and c.order_id = o.order_id
where o.no = any(:nos::bigint[]) and c.taken_at is null order by c.id;

-- name: take_commands!
update commands set taken_at = clock_timestamp() where id = any(:ids::bigint[]);

-- name: forget_commands!
-- Commands that were taken, and those whose order never came.
delete from commands where at < clock_timestamp() - make_interval(hours => 24)
   and (taken_at is not null or not exists (
        select from orders o where o.client = commands.client and o.order_id = commands.order_id));
