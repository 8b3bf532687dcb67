-- What of a run would be, or was, promoted: the staged commit, the selection, and what gates and people said about it. JSON.

alter table runs add column offer text not null default '';
