-- Why: the first release needs the state repository: orders and their steps, the history that is also the
-- replay of statuses, the agents' inbox, the outbox, commands, workflows, instances, admission and dead letters.
-- Rows are lean and hot indexes few and partial, so that finished orders cost the running ones nothing.

-- What clients sent, unchanged. Immutable.
create table order_documents (
    client    text        not null,
    order_id  text        not null,
    payload   text        not null,
    digest    bytea       not null check (octet_length(digest) = 32),
    at        timestamptz not null default clock_timestamp(),
    primary key (client, order_id)
);

-- Definitions are data and never change under a version.
create table workflows (
    name       text        not null,
    version    integer     not null check (version >= 1),
    definition text        not null,
    digest     bytea       not null check (octet_length(digest) = 32),
    at         timestamptz not null default clock_timestamp(),
    primary key (name, version)
);

-- The state record. Live: pending, processing, compensating. Resting: error, compensation_failed.
create table orders (
    no               bigint      generated always as identity primary key,
    client           text        not null,
    order_id         text        not null,
    workflow         text        not null,
    version          integer     not null,
    digest           bytea       not null,
    state            text        not null default 'pending' check (state in (
        'pending',             -- -> processing | cancelled | compensating | error
        'processing',          -- -> pending | processed | error | compensating | cancelled
        'compensating',        -- -> compensated | compensation_failed
        'error',               -- -> pending | compensating | closed
        'compensation_failed', -- -> compensating | closed
        'processed',
        'compensated',         -- -> compensating (a late success)
        'cancelled',           -- -> compensating (a late success)
        'closed'
    )),
    locked_by        uuid,
    fence            bigint      not null default 0,
    attempt          integer     not null default 0,
    step             smallint,
    sent_at          timestamptz,
    complete_by      timestamptz,
    wake_at          timestamptz,
    retries          integer     not null default 0,
    rank             bigint      not null,
    not_before       timestamptz,
    held_by          text,
    cancel_requested boolean     not null default false,
    failure_count    integer     not null default 0,
    unbegun_count    integer     not null default 0,
    sequence         integer     not null default 0,
    history          integer     not null default 0,
    progress         boolean     not null default false,
    told_retrying    boolean     not null default false,
    told_held        boolean     not null default false,
    status_queue     text        not null,
    touched_by       uuid,
    trace            text,
    received_at      timestamptz not null default clock_timestamp(),
    ended_at         timestamptz,
    unique (client, order_id),
    constraint lock_and_deadline_together check ((locked_by is null) = (complete_by is null)),
    constraint processing_is_locked check (state <> 'processing' or locked_by is not null),
    constraint only_running_is_locked check (locked_by is null or state in ('processing', 'compensating')),
    constraint locked_is_not_held check (locked_by is null or held_by is null),
    constraint end_has_a_time check (
        (ended_at is not null) = (state in ('processed', 'compensated', 'cancelled', 'closed')))
) with (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.05
);

-- Claimable: pending, or compensating without a lock; and not held.
create index orders_claim on orders (client, rank, not_before)
    where held_by is null and locked_by is null and state in ('pending', 'compensating');
create index orders_wake on orders (wake_at) where wake_at is not null;
create index orders_deadline on orders (complete_by, no) where locked_by is not null;
create index orders_held on orders (held_by, rank) where held_by is not null;

create function refuse_illegal_arrow() returns trigger language plpgsql as $$
begin
    if (old.state, new.state) in (
        ('pending', 'processing'), ('pending', 'cancelled'), ('pending', 'compensating'), ('pending', 'error'),
        ('processing', 'pending'), ('processing', 'processed'), ('processing', 'error'),
        ('processing', 'compensating'), ('processing', 'cancelled'),
        ('compensating', 'compensated'), ('compensating', 'compensation_failed'),
        ('error', 'pending'), ('error', 'compensating'), ('error', 'closed'),
        ('compensation_failed', 'compensating'), ('compensation_failed', 'closed'),
        ('compensated', 'compensating'), ('cancelled', 'compensating')
    ) then
        return new;
    end if;
    raise exception 'order % may not go from % to %', old.no, old.state, new.state
        using errcode = 'check_violation';
end $$;

create trigger orders_arrows before update of state on orders
    for each row when (old.state is distinct from new.state) execute function refuse_illegal_arrow();

-- The step record and the compensation log in one: written before dispatch, ordered by ordinal.
create table steps (
    no              bigint   not null,
    step_no         smallint not null,
    attempt         integer  not null,
    state           text     not null check (state in ('running', 'completed', 'failed')),
    calls           integer  not null default 0,
    effect          text     not null default 'none' check (effect in ('none', 'unknown', 'certain')),
    result          text,
    error           text,
    undo_state      text     check (undo_state in ('undoing', 'undone', 'undo_failed')),
    undo_tries      integer  not null default 0,
    undo_generation integer  not null default 0,
    undo_error      text,
    primary key (no, step_no),
    constraint completed_is_certain check (state <> 'completed' or (effect = 'certain' and result is not null)),
    constraint undo_has_something_to_undo check (undo_state is null or effect <> 'none')
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- History and status replay: append-only. sequence is null where no status was published.
create table transitions (
    no           bigint      not null,
    n            integer     not null,
    at           timestamptz not null,
    who          text        not null,
    from_state   text        not null,
    to_state     text        not null,
    why          text        not null,
    step_no      smallint,
    status       text,
    sequence     integer,
    constraint told_has_a_number check ((status is null) = (sequence is null)),
    primary key (no, n, at)
) partition by range (at);
create table transitions_default partition of transitions default;

-- Agents only: one row per order, step and direction. refuse_upto is also written by the supervisor.
create table inbox (
    no          bigint      not null,
    step_no     smallint    not null,
    direction   text        not null check (direction in ('do', 'undo')),
    fence       bigint      not null,
    generation  integer     not null default 0,
    owner       uuid,
    complete_by timestamptz,
    state       text        not null check (state in ('running', 'succeeded', 'failed', 'fenced')),
    calls       integer     not null default 0,
    tries       integer     not null default 0,      -- calls under the present fence
    doubt       boolean     not null default false,  -- a call under the present fence was not heard out
    reply       text,
    refuse_upto bigint      not null default 0,
    primary key (no, step_no, direction)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- One row per commit: references to what that commit still has to publish. Deleted once all is confirmed.
create table outbox (
    id    bigint      generated always as identity primary key,
    lease timestamptz not null,
    refs  text        not null
) with (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
create index outbox_lease on outbox (lease);

-- What clients and operators ask of orders; taken by schedulers under the order's lock. No foreign key: the
-- command may come before its order.
create table commands (
    id         bigint      generated always as identity primary key,
    client     text        not null,
    order_id   text        not null,
    message_id text        not null,
    kind       text        not null check (kind in ('cancel')),
    data       text,
    at         timestamptz not null default clock_timestamp(),
    taken_at   timestamptz,
    unique (client, message_id)
);
create index commands_waiting on commands (client, order_id) where taken_at is null;
create index commands_waiting_by_age on commands (id) where taken_at is null;

-- Every process keeps its own row, and with it its lease. operations are agent/operation pairs.
create table instances (
    id          uuid        primary key,
    service     text        not null,
    host        text        not null,
    pid         integer     not null,
    release     text        not null,
    operations  text[]      not null default '{}',
    slots       integer     not null default 0,
    started_at  timestamptz not null default clock_timestamp(),
    lease_until timestamptz not null
);

-- Open orders: each process changes only its own row; open is their sum.
create table admission (
    scope    text   not null,
    instance uuid   not null,
    open     bigint not null,
    primary key (scope, instance)
);

-- What could not be accepted or read: the raw bytes, where from, and why.
create table dead_letters (
    id             uuid        primary key,
    queue          text        not null,
    reason         text        not null,
    detail         text        not null,
    client         text,
    message_id     text,
    type           text,
    correlation_id text,
    reply_to       text,
    headers        text        not null,
    body           bytea       not null,
    at             timestamptz not null default clock_timestamp()
);
create index dead_letters_at on dead_letters (at);

-- Marks of deliveries that came back: three marks and a message is quarantined unhandled.
create table deliveries (
    queue text        not null,
    hash  bytea       not null,
    marks integer     not null,
    at    timestamptz not null default clock_timestamp(),
    primary key (queue, hash)
);
