-- Why: several undos of one order may be under way at the same time. Each entry of the compensation log keeps the times of
-- its own request; the order's own are the latest deadline and the earliest re-send of them. A process of the release
-- before this one writes none of these: what it sent stands in the order's row alone.

alter table steps
    add column undo_attempt     integer     not null default 0, -- the attempt that sent the undo last
    add column undo_sent_at     timestamptz,
    add column undo_complete_by timestamptz,                    -- null once it is answered for good
    add column undo_wake_at     timestamptz,
    add column undo_retries     integer     not null default 0,
    add constraint undo_sent_by_an_attempt check (undo_complete_by is null or undo_attempt > 0);
