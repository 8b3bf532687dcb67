-- Effects are looked for by how their key begins: a range of bytes, whatever the order of letters in the database.
create index effects_begin on effects (key BYTEWISE, at);
