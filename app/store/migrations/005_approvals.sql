-- Approvals by a comment: of exactly one head of a mission's pull request.

create table approvals (
  mission  text   not null references missions (id),
  head     text   not null,
  login    text   not null,
  at       INT64  not null,
  primary key (mission, head, login)
) STRICT;
