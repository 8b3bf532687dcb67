-- What checks did on commits of base branches, so that missions on one base run it once and a failure is known since when it is there.

create table baselines (
  repository   INT64  not null,
  check_key    text   not null, -- a digest of the branch, the check and all that it runs with
  commit_id    text   not null,
  committed_at INT64  not null,
  at           INT64  not null, -- when it was run
  seen         text   not null, -- checks.Seen, JSON
  primary key (repository, check_key, commit_id)
) STRICT;
