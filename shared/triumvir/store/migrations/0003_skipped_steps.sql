-- Why: a step whose condition is false is skipped, and that is a record of its own, written when it is decided: it is
-- not decided again, and nothing is undone for it. An order of which every step is skipped is done without an attempt:
--     pending -> processed

alter table steps drop constraint steps_state_check;
alter table steps add constraint steps_state_check check (state in ('running', 'completed', 'failed', 'skipped'));
alter table steps add constraint skipped_did_nothing
    check (state <> 'skipped' or (effect = 'none' and calls = 0 and result is null));

create or replace function refuse_illegal_arrow() returns trigger language plpgsql as $$
begin
    if (old.state, new.state) in (
        ('pending', 'processing'), ('pending', 'cancelled'), ('pending', 'compensating'), ('pending', 'error'),
        ('pending', 'processed'),
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
