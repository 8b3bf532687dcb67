-- What reviewers and commands ask of a mission whose pull request waits. A round of work takes all that are open when its agent
-- begins, so that two people at once are served by one round and nothing is lost when the bot is killed.

create table asks (
  key          text   primary key, -- review:<id>, <place>:<comment>:<line>, button:<delivery>
  mission      text   not null references missions (id),
  login        text   not null,
  review       INT64  not null,    -- id; 0: a command or a button
  instruction  text   not null,
  head         text   not null,    -- of the pull request when it was asked
  hands_back   INT64  not null,    -- 1: the bot may build on commits of others up to head
  at           INT64  not null,    -- at GitHub
  round        INT64  not null default 0 -- the attempt that took it; -1: waits until somebody hands the branch back
) STRICT;
create index asks_mission on asks (mission);
