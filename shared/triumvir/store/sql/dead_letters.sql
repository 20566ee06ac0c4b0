-- name: insert_dead_letters!
-- One that was settled and comes again is open again, and its log says so; one that is open stays as it first came.
with came as (
    insert into dead_letters as d (id, queue, reason, detail, client, message_id, type, correlation_id, reply_to,
                                   content_type, headers, body)
    select * from unnest(:ids::uuid[], :queues::text[], :reasons::text[], :details::text[], :clients::text[],
                         :message_ids::text[], :types::text[], :correlation_ids::text[], :reply_to::text[],
                         :content_types::text[], :headers::text[], :bodies::bytea[])
    on conflict (id) do update set settlement = null, settled_at = null where d.settlement is not null
    returning d.id
)
insert into dead_letter_log (letter, who, what)
-- only those that were there before this statement are seen here
select d.id, coalesce(d.client, d.queue), 'came_again' from came join dead_letters d on d.id = came.id;

-- name: read_dead_letters
-- What is still to be told of these: who was refused at first and accepted since is not told of the refusal.
select id, queue, reason, detail, client, message_id, type, correlation_id, reply_to, content_type, headers, body, at
from dead_letters where id = any(:ids::uuid[]) and settlement is distinct from 'replayed';

-- name: known_dead_letters
select id from dead_letters where id = any(:ids::uuid[]);

-- name: count_open_dead_letters
-- How many nobody has settled, by queue.
select queue, count(*) as letters from dead_letters where settlement is null group by queue;

-- name: ask_replay
-- An operator's wish, once: not while another one waits, not for a letter that is settled.
with asked as (
    update dead_letters set replay_asked_at = clock_timestamp(), replay_tries = 0
    where id = :id::uuid and settlement is null and replay_asked_at is null returning id
)
insert into dead_letter_log (letter, who, what, note)
select id, :who::text, 'replay_asked', :note::text from asked returning n;

-- name: settle_dead_letter
-- open -> discarded | resolved. Not while a replay waits: a submitter may be at it.
with settled as (
    update dead_letters set settlement = :settlement::text, settled_at = clock_timestamp()
    where id = :id::uuid and settlement is null and replay_asked_at is null returning id
)
insert into dead_letter_log (letter, who, what, note)
select id, :who::text, :settlement::text, :note::text from settled returning letter;

-- name: claim_replay
-- The oldest replay that no submitter is at, leased to this one; the try counts before anything is done.
with wanted as (
    select id from dead_letters
    where replay_asked_at is not null and (replay_lease is null or replay_lease < clock_timestamp())
    order by replay_asked_at limit 1 for no key update skip locked
)
update dead_letters d set replay_tries = d.replay_tries + 1,
       replay_lease = clock_timestamp() + make_interval(secs => :lease_seconds::float8)
from wanted where d.id = wanted.id
returning d.replay_tries, d.replay_lease, d.id, d.queue, d.reason, d.detail, d.client, d.message_id, d.type,
          d.correlation_id, d.reply_to, d.content_type, d.headers, d.body, d.at;

-- name: give_back_replay!
-- A try that failed while its submitter lived does not count; the letter comes again when the lease is over.
update dead_letters set replay_tries = replay_tries - 1
where id = :id::uuid and replay_asked_at is not null and replay_lease = :lease::timestamptz;

-- name: lock_replay
-- Still this submitter's: nobody took it over when the lease lapsed.
select id from dead_letters
where id = :id::uuid and replay_asked_at is not null and replay_lease = :lease::timestamptz for no key update;

-- name: settle_replay!
-- open -> replayed, in the commit that did what the (locked) letter asked for.
with settled as (
    update dead_letters set settlement = 'replayed', settled_at = clock_timestamp(), replay_asked_at = null,
           replay_lease = null
    where id = :id::uuid returning id
)
insert into dead_letter_log (letter, who, what, note)
select id, :who::text, 'replayed', :note::text from settled;

-- name: refuse_replay!
-- The (locked) letter stays open, with the reason it has now.
with refused as (
    update dead_letters set reason = :reason::text, detail = :detail::text, replay_asked_at = null, replay_lease = null
    where id = :id::uuid returning id
)
insert into dead_letter_log (letter, who, what, note)
select id, :who::text, 'refused_again', :note::text from refused;

-- name: mark_delivery
-- One more try at a delivery that came back.
insert into deliveries as d (queue, hash, marks) values (:queue::text, :hash::bytea, 1)
on conflict (queue, hash) do update set marks = d.marks + 1 returning marks;

-- name: unmark_delivery!
delete from deliveries where queue = :queue::text and hash = :hash::bytea;

-- name: forget_marks!
delete from deliveries where at < clock_timestamp() - make_interval(hours => 24);
