-- Who looked at the data of confidential orders.

-- name: log_reveal
-- Committed before anything is shown.
insert into reveal_log (who, command, client, order_id, workflow, reason)
values (:who::text, :command::text, :client::text, :order_id::text, :workflow::text, :reason::text)
returning n;

-- name: list_reveals
-- The newest that match; a filter that is null matches all.
select n, at, who, by_user, command, client, order_id, workflow, reason from reveal_log
where (:client::text is null or client = :client::text) and (:order_id::text is null or order_id = :order_id::text)
order by n desc limit :most::int;

-- name: forget_reveals!
-- Lines that are so old, the oldest first, so many at most.
delete from reveal_log
where n in (select n from reveal_log order by n limit :most::int)
  and at < clock_timestamp() - make_interval(secs => :seconds::float8);
