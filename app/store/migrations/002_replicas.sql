-- Several bots may share the work (on PostgreSQL), and each has its own sandboxes on its own disk.

create table hosts (
  id       text    primary key, -- of a state directory
  name     text    not null,    -- for people
  seen_at  INT64   not null     -- its heartbeat
) STRICT;

alter table missions add column host        text  not null default ''; -- whose sandbox the run has
alter table missions add column lease       text  not null default ''; -- the process that works on it now
alter table missions add column lease_until INT64 not null default 0;
alter table missions add column ready_at    INT64 not null default 0;  -- since when it waits for a place
create index missions_lease on missions (lease_until) where ended_at = 0;
