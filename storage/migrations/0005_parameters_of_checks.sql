-- Whose updates failed a check (a list in JSON), how many did, and of how many.

ALTER TABLE checks ADD COLUMN parameters TEXT NOT NULL DEFAULT '[]';
ALTER TABLE checks ADD COLUMN failed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE checks ADD COLUMN compared INTEGER NOT NULL DEFAULT 0;
