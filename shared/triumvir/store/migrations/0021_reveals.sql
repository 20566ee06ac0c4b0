-- Why: whoever looks at the data of a confidential order leaves a trace, written before anything is shown.

-- Append-only. by_user: the name that Postgres knows, which the one who asks does not choose.
create table reveal_log (
    n        bigint      generated always as identity primary key,
    at       timestamptz not null default clock_timestamp(),
    who      text        not null,
    by_user  text        not null default session_user,
    command  text        not null,
    client   text        not null,
    order_id text        not null,
    workflow text        not null,
    reason   text
);
