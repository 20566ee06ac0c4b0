-- Why: operators settle dead letters. What became of one stands in its row, who did what to it and why in its log.
-- A replay is a wish in the row: a submitter takes it, under a lease, and answers it in the commit that does it.

alter table dead_letters
    add column content_type    text,
    add column settlement      text check (settlement in (
        'replayed',              -- handled again as if it had just come, and taken
        'discarded',             -- nothing is to come of it
        'resolved'               -- what it asked for was seen to in another way
    )),
    add column settled_at      timestamptz,
    add column replay_asked_at timestamptz,                  -- null again once the replay is answered
    add column replay_tries    integer not null default 0,   -- how often a submitter began with it
    add column replay_lease    timestamptz,                  -- until then it is that submitter's alone
    add constraint settled_has_a_time check ((settlement is null) = (settled_at is null)),
    add constraint settled_waits_for_nothing check (settlement is null or replay_asked_at is null),
    add constraint lease_is_of_a_replay check (replay_lease is null or replay_asked_at is not null);

create index dead_letters_open on dead_letters (at) where settlement is null;
create index dead_letters_replay on dead_letters (replay_asked_at) where replay_asked_at is not null;

-- Append-only. No foreign key: submitters and operators write it beside the letter.
create table dead_letter_log (
    letter uuid        not null,
    n      bigint      generated always as identity,
    at     timestamptz not null default clock_timestamp(),
    who    text        not null,
    what   text        not null check (what in (
        'came_again',            -- settled before; open again
        'replay_asked',
        'refused_again',         -- the answer to a replay; it stays open
        'replayed', 'discarded', 'resolved'
    )),
    note   text,
    primary key (letter, n)
);
