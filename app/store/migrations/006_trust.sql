-- What was decided on the strength of the boundary for a run, and why.

create table trust (
  run      text  primary key,
  mission  text  not null,
  tier     text  not null,
  decision text  not null -- JSON
) STRICT;
