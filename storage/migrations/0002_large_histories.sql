-- Version 2. With a million trials, listing runs reads an index of their order and looks at a run only
-- when it is shown.

DROP INDEX runs_by_start;
CREATE INDEX runs_by_order ON runs (started_unix_ns, sequence, id);
CREATE INDEX runs_by_name ON runs (recipe_name);
CREATE INDEX trials_by_verdict ON trials (run_id, verdict);
