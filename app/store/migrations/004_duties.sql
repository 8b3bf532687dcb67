-- Work that one bot at a time does for all that share the database.

create table duties (
  name    text  primary key,
  holder  text  not null,             -- the host that does it
  until   INT64 not null,             -- another may take it over after this
  done_at INT64 not null default 0,   -- when it was last done to the end
  result  text  not null default ''   -- what came of that, for people
) STRICT;
