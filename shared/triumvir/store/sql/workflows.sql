-- name: insert_workflow
insert into workflows (name, version, definition, digest)
values (:name::text, :version::int, :definition::text, :digest::bytea)
on conflict (name, version) do nothing returning name;

-- name: read_workflow
select name, version, definition, digest from workflows where name = :name::text and version = :version::int;

-- name: read_workflows
select w.name, w.version, w.definition
from unnest(:names::text[], :versions::int[]) as k(name, version)
join workflows w on w.name = k.name and w.version = k.version;

-- name: latest_versions
-- The newest version of each workflow.
select name, max(version) as version from workflows group by name;

-- name: all_definitions
select name, version, definition from workflows order by name, version;
