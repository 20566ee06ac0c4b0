-- Why: a step whose time is over may lead to another one, and of a step that must not be called again it is asked what
-- came of it. Processes of the release before neither read nor write these columns.

-- led_to: the ordinal of the step that this one's time-out led to; what lies between is passed over. asking: the next
-- request for it, or the one under way, calls nothing.
alter table steps add column led_to smallint;
alter table steps add column asking boolean not null default false;
alter table steps add constraint leads_down check (led_to is null or led_to > step_no);
