-- Why: operators pause an order, a workflow or an agent while something outside is mended, and move many orders at once.

-- paused_at: an operator wants this order to stand still; it is held by `pause:order` as soon as nothing of it is under way.
-- paused_by: who, and why. held_at: since when held_by says what it says; a back-off that it interrupts goes on from there.
alter table orders
    add column held_at   timestamptz,
    add column paused_at timestamptz,
    add column paused_by text,
    add constraint paused_by_somebody check ((paused_at is null) = (paused_by is null));

-- action: what the release before does not know, and would take for a cancel. Such a row's kind is `retry`, under a fence
-- that no order has: a scheduler of that release leaves the order alone and says so in its history.
alter table commands
    add column action text check (action in ('pause', 'unpause')),
    add constraint action_is_disguised check (action is null or kind = 'retry');

-- What stands still as a whole. version 0: every version. Schedulers look at it once a second.
create table pauses (
    scope   text        not null check (scope in ('workflow', 'agent')),
    name    text        not null,
    version integer     not null default 0,
    who     text        not null,
    reason  text        not null,
    at      timestamptz not null default clock_timestamp(),
    primary key (scope, name, version),
    constraint agents_have_no_versions check (scope = 'workflow' or version = 0)
);

-- Append-only.
create table pause_log (
    n       bigint      generated always as identity primary key,
    at      timestamptz not null default clock_timestamp(),
    scope   text        not null,
    name    text        not null,
    version integer     not null,
    what    text        not null check (what in ('paused', 'unpaused')),
    who     text        not null,
    reason  text
);

-- A move of many orders: what was selected, once and for all, and what came of each. next_at: when the next of them may
-- be asked for, whoever runs it, so that two who run the same one keep its rate together.
create table bulks (
    id      text        primary key,
    action  text        not null,
    who     text        not null,
    reason  text        not null,
    result  text,
    filter  text        not null,
    orders  integer     not null,
    at      timestamptz not null default clock_timestamp(),
    next_at timestamptz not null default '-infinity'
);

-- The order as it was when it was selected: it is moved only if it still has that fence.
create table bulk_orders (
    bulk     text        not null,
    no       bigint      not null,
    client   text        not null,
    order_id text        not null,
    workflow text        not null,
    version  integer     not null,
    state    text        not null,
    step     text,
    fence    bigint      not null,
    history  integer     not null,
    asked_at timestamptz,
    outcome  text        check (outcome in (
        'done',
        'refused',             -- it had moved on, or does not fit any more
        'fell_back'            -- it was moved, and rests again
    )),
    detail   text,
    primary key (bulk, no),
    constraint asked_before_it_came_to_something check (outcome is null or asked_at is not null)
) with (fillfactor = 70);
create index bulk_orders_unasked on bulk_orders (bulk, no) where asked_at is null;
create index bulk_orders_asked on bulk_orders (bulk, no) where asked_at is not null and outcome is null;
create index bulk_orders_done on bulk_orders (bulk, asked_at) where outcome = 'done';

-- Append-only.
create table bulk_log (
    bulk text        not null,
    n    bigint      generated always as identity,
    at   timestamptz not null default clock_timestamp(),
    who  text        not null,
    what text        not null check (what in ('selected', 'begun', 'stopped', 'done')),
    note text,
    primary key (bulk, n)
);
