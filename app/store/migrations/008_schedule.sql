-- Who waits for a place is looked through in one pass; what was read once for a mission is kept with it.

alter table missions add column position  INT64 not null default 0;  -- in the line, from 1, when that was last told
alter table missions add column own_rules text  not null default ''; -- the rules for the bot's branch, JSON
create index missions_placed on missions (step) where ended_at = 0 and (host <> '' or ready_at > 0);
