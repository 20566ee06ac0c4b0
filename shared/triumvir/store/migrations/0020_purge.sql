-- Why: an ended order is kept for as long as its workflow says. What is purged loses everything but its key, digest, state
-- and last status, by which the same submission is known and answered until that is forgotten, too.

-- purged_at: since when the order is empty. document_left: its payload is in another database, and still to be emptied.
-- Its document stays as well, with an empty payload, so that no submitter writes it anew.
alter table orders
    add column purged_at     timestamptz,
    add column document_left boolean not null default false,
    add constraint purged_has_ended check (purged_at is null or ended_at is not null),
    add constraint document_left_of_a_purged_order check (not document_left or purged_at is not null);

-- By workflow version: each keeps its orders for a time of its own, and those that are kept for good must hide no others.
create index orders_purgeable on orders (workflow, version, ended_at) where ended_at is not null and purged_at is null;
create index orders_purged on orders (purged_at) where purged_at is not null;
create index orders_document_left on orders (no) where document_left;

-- The steps of a purged order are gone: nothing may begin with it again, whatever a process remembers of it.
create function refuse_moves_of_purged_orders() returns trigger language plpgsql as $$
begin
    raise exception 'order % was purged', old.no using errcode = 'check_violation';
end $$;

create trigger orders_purged_stay before update of state on orders
    for each row when (old.purged_at is not null and old.state is distinct from new.state)
    execute function refuse_moves_of_purged_orders();
