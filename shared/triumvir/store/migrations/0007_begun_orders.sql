-- Why: while the agents of first steps are full, schedulers still claim what was begun before: the next step, or an undo,
-- may be another agent's. These orders are few, and must be found without reading the backlog of new ones.

create index orders_begun on orders (coalesce(not_before, '-infinity'))
    where held_by is null and locked_by is null and state in ('pending', 'compensating') and attempt > 0;
