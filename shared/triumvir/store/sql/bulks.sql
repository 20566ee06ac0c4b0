-- name: insert_bulk!
insert into bulks (id, action, who, reason, result, filter, orders)
values (:id::text, :action::text, :who::text, :reason::text, :result::text, :filter::text, 0);

-- name: select_for_bulk
-- A page of the orders that match, as they are now; a filter that is null matches all. Shows the last one's number.
with page as (
    select o.no, o.client, o.order_id, o.workflow, o.version, o.state, o.fence, o.history,
           (w.definition::jsonb -> 'steps' -> (o.step - 1)) ->> 'name' as step
    from orders o left join workflows w on w.name = o.workflow and w.version = o.version
    where o.no > :after::bigint and o.state = any(:states::text[])
      and (:workflow::text is null or o.workflow = :workflow::text)
      and (:version::int is null or o.version = :version::int)
      and (:client::text is null or o.client = :client::text)
      and (:older_than::float8 is null
           or o.received_at < clock_timestamp() - make_interval(secs => :older_than::float8))
      and (:held_by::text is null or starts_with(o.held_by, :held_by::text))
      and (:paused::boolean is null or (o.paused_at is not null) = :paused::boolean)
      and (:step::text is null or (w.definition::jsonb -> 'steps' -> (o.step - 1)) ->> 'name' = :step::text)
      and (:error::text is null or exists (
           select from steps s where s.no = o.no
             and position(lower(:error::text) in lower(coalesce(s.undo_error, s.error, ''))) > 0))
    order by o.no limit :most::int
), kept as (
    insert into bulk_orders (bulk, no, client, order_id, workflow, version, state, step, fence, history)
    select :bulk::text, no, client, order_id, workflow, version, state, step, fence, history from page
)
select count(*) as orders, max(no) as last from page;

-- name: close_selection
-- From now on nothing is added. Shows what was made.
update bulks set orders = :orders::int where id = :id::text
returning id, action, who, reason, result, filter, orders, at;

-- name: find_bulks
-- Those whose id begins like this; two rows mean that more of the id is needed.
select id, action, who, reason, result, filter, orders, at from bulks
where id like :prefix::text || '%' order by id limit 2;

-- name: list_bulks
-- The newest.
select id, action, who, reason, result, filter, orders, at from bulks order by at desc limit :most::int;

-- name: bulk_groups
-- What was selected, by what it was then.
select state, workflow, version, step, count(*) as orders from bulk_orders
where bulk = :bulk::text group by 1, 2, 3, 4 order by orders desc, 1, 2, 3, 4;

-- name: bulk_sample
-- Some of what was selected.
select client, order_id, workflow, version, state, step from bulk_orders
where bulk = :bulk::text order by no limit :most::int;

-- name: bulk_tally
-- How far it is; since: of those that were asked for since then.
select count(*) filter (where asked_at is null) as unasked,
       count(*) filter (where asked_at is not null and outcome is null) as waiting,
       count(*) filter (where outcome = 'done') as done,
       count(*) filter (where outcome = 'refused') as refused,
       count(*) filter (where outcome = 'fell_back') as fell_back,
       count(*) filter (where outcome is not null and asked_at >= :since::timestamptz) as settled_since,
       count(*) filter (where outcome in ('refused', 'fell_back') and asked_at >= :since::timestamptz) as failed_since
from bulk_orders where bulk = :bulk::text;

-- name: bulk_failures
-- Those that were not moved, or did not stay so.
select client, order_id, outcome, detail from bulk_orders
where bulk = :bulk::text and outcome in ('refused', 'fell_back') order by no limit :most::int;

-- name: bulk_states
-- What the orders are now.
select o.state, count(*) as orders from bulk_orders b join orders o on o.no = b.no
where b.bulk = :bulk::text group by 1 order by 2 desc, 1;

-- name: lock_bulk
-- Whoever asks for more of it takes turns here. wait: seconds until the next may be asked for.
select greatest(0, extract(epoch from greatest(next_at, statement_timestamp()) - clock_timestamp()))::float8 as wait
from bulks where id = :id::text for no key update;

-- name: bulk_next
-- The next to be asked for; none while so many wait to be taken.
select no, client, order_id, fence from bulk_orders
where bulk = :bulk::text and asked_at is null order by no
limit greatest(0, least(:most::bigint, :most_waiting::bigint - (
    select count(*) from bulk_orders w where w.bulk = :bulk::text and w.asked_at is not null and w.outcome is null)));

-- name: bulk_asked!
-- They were asked for; the next ones may be after so many seconds.
with those as (
    update bulk_orders set asked_at = clock_timestamp()
    where bulk = :bulk::text and no = any(:nos::bigint[]) and asked_at is null
)
update bulks set next_at = greatest(next_at, clock_timestamp()) + make_interval(secs => :seconds::float8)
where id = :bulk::text;

-- name: settle_bulk
-- What came of those that a scheduler has taken, as their history says it.
with taken as (
    select b.no, b.history from bulk_orders b
    where b.bulk = :bulk::text and b.asked_at is not null and b.outcome is null
      and not exists (select from commands c where c.client = b.client and c.order_id = b.order_id and c.taken_at is null
                        and c.message_id = b.order_id || ' ' || :message_id::text)
    order by b.no limit :most::int
)
update bulk_orders b
set outcome = case when starts_with(said.why, :asked::text) and position(' refused: ' in said.why) > 0 then 'refused'
                   else 'done' end,
    detail = said.why
from taken left join lateral (
    select t.why from transitions t
    where t.no = taken.no and t.n > taken.history and position(:mark::text in t.why) > 0 order by t.n limit 1
) said on true
where b.bulk = :bulk::text and b.no = taken.no and b.outcome is null
returning b.no;

-- name: bulk_fell_back
-- Of the last that were moved, those that rest again: what was to be mended is not.
update bulk_orders b set outcome = 'fell_back', detail = 'is ' || o.state || ' again'
from orders o
where b.bulk = :bulk::text and b.outcome = 'done' and o.no = b.no
  and o.state in ('error', 'compensation_failed') and o.fence > b.fence
  and b.no in (select no from bulk_orders r where r.bulk = :bulk::text and r.outcome = 'done'
               order by r.asked_at desc limit :most::int)
returning b.no;

-- name: insert_bulk_log!
insert into bulk_log (bulk, who, what, note) values (:bulk::text, :who::text, :what::text, :note::text);

-- name: read_bulk_log
-- Who did what with it, oldest first.
select n, at, who, what, note from bulk_log where bulk = :bulk::text order by n;

-- name: present_time
select clock_timestamp();

-- name: forget_bulks!
-- Bulks that nobody did anything with for so long, with their log. What they selected is forgotten after them.
with gone as (
    delete from bulks b
    where b.at < clock_timestamp() - make_interval(secs => :seconds::float8)
      and not exists (select from bulk_log l
                      where l.bulk = b.id and l.at >= clock_timestamp() - make_interval(secs => :seconds::float8))
    returning b.id
)
delete from bulk_log l using gone where l.bulk = gone.id;

-- name: forget_bulk_orders
-- So many at most of what bulks that are forgotten selected (a loose index scan finds them); how many it were.
with recursive ids(bulk) as (
    (select bulk from bulk_orders order by bulk limit 1)
    union all
    select (select o.bulk from bulk_orders o where o.bulk > i.bulk order by o.bulk limit 1)
    from ids i where i.bulk is not null
), page as (
    select o.bulk, o.no
    from ids i cross join lateral (select bulk, no from bulk_orders where bulk = i.bulk order by no limit :most::int) o
    where i.bulk is not null and not exists (select from bulks b where b.id = i.bulk)
    limit :most::int
), gone as (
    delete from bulk_orders o using page where o.bulk = page.bulk and o.no = page.no returning o.no
)
select count(*) from gone;
