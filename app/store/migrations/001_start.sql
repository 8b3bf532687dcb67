-- Times are Unix milliseconds in UTC; 0 is never.

create table deliveries (
  id              text    primary key, -- X-GitHub-Delivery
  event           text    not null,
  action          text    not null,
  installation_id INT64 not null,
  repository_id   INT64 not null,
  received_at     INT64 not null,
  body            BLOB    not null,
  attempts        INT64 not null default 0,
  due_at          INT64 not null,    -- when it is to be handled (again)
  handled_at      INT64 not null default 0,
  outcome         text    not null default ''
) STRICT;
create index deliveries_due on deliveries (due_at) where handled_at = 0;
create index deliveries_handled on deliveries (handled_at) where handled_at > 0;

create table missions (
  id              text    primary key,
  kind            text    not null,    -- issue, checks
  installation_id INT64 not null,
  repository_id   INT64 not null,
  owner           text    not null,    -- names change: shown to people, never a key
  name            text    not null,
  number          INT64 not null,
  title           text    not null,
  task            text    not null,    -- the text of the issue as of the trigger, JSON
  trigger_key     text    not null unique,
  requester       text    not null,
  requester_id    INT64 not null,
  instruction     text    not null,
  triggered_at    INT64 not null,
  base_branch     text    not null,
  base            text    not null,    -- pinned when the mission is taken
  head            text    not null,    -- of the pull request whose checks run, or of the promotion
  only_check      text    not null,
  policy          text    not null,    -- as it was read, JSON
  policy_source   text    not null,
  step            text    not null,
  attempt         INT64 not null,
  run             text    not null,
  want            text    not null,    -- what a person asked for meanwhile: cancel, discard
  want_by         text    not null,
  next_head       text    not null,    -- a newer head, seen while an older one is worked on
  outcome         text    not null,
  message         text    not null,
  pull            INT64 not null,
  pull_url        text    not null,
  branch          text    not null,
  comment_id      INT64 not null,
  comment_digest  text    not null,
  failures        INT64 not null,    -- of the present step, in a row
  due_at          INT64 not null,    -- of the next tick; 0: only an event moves it
  created_at      INT64 not null,
  updated_at      INT64 not null,
  ended_at        INT64 not null
) STRICT;
-- One mission at a time for an issue, whatever the number of deliveries, labels or people.
create unique index missions_open on missions (repository_id, number, kind) where ended_at = 0;
create index missions_due on missions (due_at) where ended_at = 0 and due_at > 0;
create index missions_pull on missions (repository_id, pull) where pull > 0;

create table runs (
  id          text    primary key,
  mission     text    not null references missions (id),
  attempt     INT64 not null,
  base        text    not null,
  result      text    not null,  -- commit in the store
  agent       text    not null,  -- its command line
  exit        text    not null,  -- JSON, as the columns below
  receipt     text    not null,  -- what the agent was given and what was withheld
  changes     text    not null,
  checks      text    not null,
  created_at  INT64 not null,
  ended_at    INT64 not null
) STRICT;
create index runs_mission on runs (mission);

create table promotions (
  run         text    primary key references runs (id),
  mission     text    not null references missions (id),
  commit_id   text    not null,
  branch      text    not null,
  pull        INT64 not null,
  manifest    text    not null,  -- canonical JSON
  digest      text    not null,
  created_at  INT64 not null
) STRICT;

create table findings (
  id          SERIAL,
  run         text    not null,
  at          INT64 not null,
  kind        text    not null,
  severity    text    not null,
  observer    text    not null,
  evidence    text    not null,
  outcome     text    not null,
  unique (run, at, kind, evidence)
) STRICT;

-- What was done at GitHub once and must not be done again, by a key of our own.
create table effects (
  key         text    primary key,
  github_id   INT64 not null,
  at          INT64 not null
) STRICT;
