-- Why: what rests in `error` or `compensation_failed` is an operator's to move. What they ask waits in `commands` like a
-- cancel, until a scheduler takes it under the order's lock.

alter table commands drop constraint commands_kind_check;
alter table commands add constraint commands_kind_check
    check (kind in ('cancel', 'retry', 'skip', 'compensate', 'resume', 'close'));

-- generation: rises when an operator retries a step that asserted no effect, so that a remote service which dedupes by
-- key does not answer with the refusal it remembers. by_hand: an operator's word stands for the agent's.
alter table steps add column generation integer not null default 0;
alter table steps add column by_hand    boolean not null default false;
