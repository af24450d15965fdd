-- Version 5. How trainers ended before their time, with what that is known from. trial_number is 0 outside trials.

CREATE TABLE trainer_ends (
  sequence INTEGER NOT NULL PRIMARY KEY,
  run_id TEXT NOT NULL REFERENCES runs (id),
  trial_number INTEGER NOT NULL,
  outcome TEXT NOT NULL,
  evidence TEXT NOT NULL,
  ended_unix_ns INTEGER NOT NULL
) STRICT;
CREATE INDEX trainer_ends_by_run ON trainer_ends (run_id, trial_number);
