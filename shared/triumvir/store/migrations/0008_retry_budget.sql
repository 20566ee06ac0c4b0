-- Why: failures of a step are counted per step, and calls per request; nothing bounded the calls of an order as a whole.
-- Its budget and the limit of each undo are in the rows, so that they outlive whoever counts.

-- Calls granted beyond the first of each step. Null: nothing was dispatched since there are budgets.
alter table orders add column budget integer check (budget >= 0);

alter table steps
    add column undo_calls integer not null default 0,  -- calls of its undo so far
    add column calls_upto integer,                     -- what its present request may make of them, or of its own
    add column undo_limit integer;                     -- how many its undo may make; null: granted with the next dispatch

-- Whether the orders that a silent instance touched last had their next retry brought forward.
alter table instances add column revived boolean not null default false;
