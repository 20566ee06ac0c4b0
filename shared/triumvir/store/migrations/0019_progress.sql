-- Why: what an agent reports while it is at work is kept, so that a report which comes twice, or after a later one, is
-- known for what it is. Processes of the release before neither read nor write it.

-- The last report of the step, or of its undo, as JSON: its words, the attempt, calls and count that order the reports,
-- and when a client was told last. Null if there was none.
alter table steps add column progress text;
