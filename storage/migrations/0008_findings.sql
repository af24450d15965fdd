-- What the profiler's rules found in the trace that belongs to a profile, in the order of the rules. plugin and knob
-- are empty where no plugin acts on it.

CREATE TABLE findings (
  sequence INTEGER NOT NULL PRIMARY KEY,
  run_id TEXT NOT NULL REFERENCES runs (id),
  profile INTEGER NOT NULL REFERENCES profiles (sequence),
  id TEXT NOT NULL,
  signal TEXT NOT NULL,
  value REAL,
  threshold REAL NOT NULL,
  is_below INTEGER NOT NULL,
  evidence TEXT NOT NULL,
  plugin TEXT NOT NULL,
  knob TEXT NOT NULL,
  advice TEXT NOT NULL
) STRICT;
CREATE INDEX findings_by_run ON findings (run_id, profile);
