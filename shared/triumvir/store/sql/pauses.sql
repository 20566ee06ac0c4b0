-- name: read_pauses
-- What stands still as a whole.
select scope, name, version, who, reason, at from pauses order by scope, name, version;

-- name: insert_pause
-- One pause, and the line of it in the log; nothing if it is paused already.
with added as (
    insert into pauses (scope, name, version, who, reason)
    values (:scope::text, :name::text, :version::int, :who::text, :reason::text)
    on conflict (scope, name, version) do nothing
    returning scope, name, version, who, reason, at
), logged as (
    insert into pause_log (at, scope, name, version, what, who, reason)
    select at, scope, name, version, 'paused', who, reason from added
)
select scope, name, version, who, reason, at from added;

-- name: delete_pause
-- The end of one pause, and the line of it in the log; shows what it was, nothing if there was none.
with ended as (
    delete from pauses where scope = :scope::text and name = :name::text and version = :version::int
    returning scope, name, version, who, reason, at
), logged as (
    insert into pause_log (scope, name, version, what, who, reason)
    select scope, name, version, 'unpaused', :who::text, :reason::text from ended
)
select scope, name, version, who, reason, at from ended;

-- name: read_pause
-- One pause, if it is in force.
select scope, name, version, who, reason, at from pauses
where scope = :scope::text and name = :name::text and version = :version::int;

-- name: read_pause_log
-- The newest lines of the log.
select n, at, scope, name, version, what, who, reason from pause_log order by n desc limit :most::int;

-- name: count_pauses
-- How much stands still, by scope.
select scope, count(*) as pauses from pauses group by scope;

-- name: forget_pause_log!
-- Lines that are so old, the oldest first, so many at most. What is paused still says by itself since when and by whom.
delete from pause_log
where n in (select n from pause_log order by n limit :most::int)
  and at < clock_timestamp() - make_interval(secs => :seconds::float8);
