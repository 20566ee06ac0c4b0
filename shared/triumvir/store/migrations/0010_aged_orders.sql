-- Why: an order that waits too long, unclaimed or held, is told to the operators once for each attempt, and not at every
-- look of every supervisor.

create table aged_orders (
    no      bigint      not null,
    kind    text        not null check (kind in ('unclaimed', 'held')),
    attempt integer     not null,                            -- after which it waited so long, and was told
    at      timestamptz not null default clock_timestamp(),
    primary key (no, kind)
);
