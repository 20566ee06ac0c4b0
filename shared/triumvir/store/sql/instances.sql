-- name: renew_instance!
-- This process' own row: its lease, and what it offers.
insert into instances as i (id, service, host, pid, release, operations, slots, lease_until)
values (:id::uuid, :service::text, :host::text, :pid::int, :release::text, :operations::text[], :slots::int,
        clock_timestamp() + make_interval(secs => :lease_seconds::float8))
on conflict (id) do update set lease_until = excluded.lease_until, revived = false;

-- name: withdraw_instance!
-- A graceful stop begins: nothing new is sent here; what is in hand keeps its lease.
update instances set operations = '{}', slots = 0 where id = :id::uuid;

-- name: remove_instance!
-- A graceful stop.
delete from instances where id = :id::uuid;

-- name: live_instances
select id, service, operations, slots from instances where lease_until > clock_timestamp();

-- name: remove_lapsed_instances
-- Instances that fell silent long enough ago that nobody still asks for their lease. One whose requests were not
-- brought forward yet stays for that, but not for ever.
delete from instances
where lease_until < clock_timestamp() - make_interval(secs => :grace_seconds::float8)
  and (revived or lease_until < clock_timestamp() - make_interval(secs => :unrevived_seconds::float8))
returning id, service;

-- name: lapsed_instances
-- Instances whose lease lapsed and whose requests were not brought forward yet.
select id from instances where lease_until < clock_timestamp() and not revived order by id;

-- name: lock_lapsed
-- One of them, if it is still so and nobody else has it in hand.
select id from instances where id = :id::uuid and lease_until < clock_timestamp() and not revived
for no key update skip locked;

-- name: touched_orders
-- Orders with an unanswered request and a retry to come that an instance touched last, locked, a page at a time.
select no from orders
where wake_at is not null and touched_by = :instance::uuid and no > :after::bigint
order by no limit :most::int for no key update;

-- name: mark_revived!
update instances set revived = true where id = :id::uuid;
