-- Why: a step may wait for a signal instead of running an operation. It waits under the order's lock and deadline; a
-- signal that comes before its step is kept in the step's row, and so is the time left of a wait that is held.

alter table steps drop constraint steps_state_check;
alter table steps add constraint steps_state_check
    check (state in ('running', 'completed', 'failed', 'skipped', 'waiting', 'signalled'));
alter table steps add constraint waits_did_nothing
    check (state not in ('waiting', 'signalled') or (effect = 'none' and calls = 0));
alter table steps add constraint signalled_has_data check (state <> 'signalled' or result is not null);

-- A wait is completed without a call: nothing has happened at a remote service.
alter table steps drop constraint completed_is_certain;
alter table steps add constraint completed_is_certain
    check (state <> 'completed' or (result is not null and (effect = 'certain' or (effect = 'none' and calls = 0))));

alter table steps add column wait_left interval;

-- A scheduler of the release before refuses what is disguised so, instead of taking it for a cancel.
alter table commands drop constraint commands_action_check;
alter table commands add constraint commands_action_check check (action in ('pause', 'unpause', 'signal'));
