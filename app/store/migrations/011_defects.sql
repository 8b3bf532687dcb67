-- Failures that time mends and those that look like a defect are counted apart: an outage leaves no less patience for what comes after it.

alter table missions add column defects INT64 not null default 0; -- of the step, in a row
alter table missions add column trouble text  not null default ''; -- why the step is tried again
