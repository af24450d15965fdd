-- Whether a run was begun with --retune: the same command goes on with such a run only.

ALTER TABLE runs ADD COLUMN is_retuned INTEGER NOT NULL DEFAULT 0;
