-- The audit chain. The text is what was hashed, and holds the hash of the record before it; the columns beside it are for
-- finding records. Nothing updates or deletes here.

create table audit (
  seq     INT64 primary key,
  at      INT64 not null,
  kind    text  not null,
  mission text  not null,
  run     text  not null,
  hash    text  not null,
  record  text  not null
) STRICT;
create index audit_run on audit (run);
create index audit_mission on audit (mission);
