-- Why: an order that could not be undone has to say what was undone and what was not, as it was when it came to rest.
-- Its status and its alert are made again from the history, long after an operator may have moved it on.

-- Of a row that leads to compensation_failed: JSON, the steps that were begun, without their data. Otherwise null.
alter table transitions add column account text;
