-- What `triumvir doctor` looks at beside the reads of operators. Nothing here locks or writes.

-- name: clock
-- The time that deadlines go by.
select clock_timestamp() as now;

-- name: current_user
-- Who this connection is to Postgres.
select current_user::text;

-- name: schema_is_usable
-- Whether this user may look into the schema; no row if there is none.
select has_schema_privilege(oid, 'usage') as usable from pg_namespace where nspname = :schema::text;

-- name: lacking_privileges
-- What this user may not do with which tables. Partitions are written through their parent.
select v.verb, array_agg(c.relname::text order by c.relname) as tables
from pg_class c
join pg_namespace s on s.oid = c.relnamespace
cross join (values (1, 'select'), (2, 'insert'), (3, 'update'), (4, 'delete')) v(place, verb)
where s.nspname = :schema::text and c.relkind in ('r', 'p') and not c.relispartition
  and (c.relname <> 'schema_migrations' or v.verb = 'select')
  and not has_table_privilege(c.oid, v.verb)
group by v.place, v.verb order by v.place;

-- name: definitions_in_use
-- The latest version of each workflow, and every version that a live order is pinned to. Each branch reads a
-- partial index that holds live orders only.
with live as (
    select workflow, version from orders
    where held_by is null and locked_by is null and state in ('pending', 'compensating')
    union select workflow, version from orders where locked_by is not null
    union select workflow, version from orders where held_by is not null
)
select w.name, w.version, w.definition from workflows w
where w.version = (select max(l.version) from workflows l where l.name = w.name)
   or (w.name, w.version) in (select workflow, version from live)
order by w.name, w.version;

-- name: oldest_transaction
-- The session whose transaction is open for longest, but this one: what changed since then cannot be forgotten.
select pid, application_name, usename::text as user, state, extract(epoch from clock_timestamp() - xact_start)::float8 as seconds
from pg_stat_activity
where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid() and xact_start is not null
order by xact_start limit 1;
