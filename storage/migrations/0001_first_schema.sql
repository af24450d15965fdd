-- Version 1. One row per fact; units in the column names, one unit per quantity. Configurations, facts
-- and recipes are JSON text. REAL columns hold NULL where a measurement was not a number.

CREATE TABLE environments (
  key TEXT NOT NULL PRIMARY KEY,
  facts TEXT NOT NULL,
  libtorch_version TEXT NOT NULL,
  build TEXT NOT NULL
) STRICT;

CREATE TABLE recipes (
  hash TEXT NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  path TEXT NOT NULL,
  content TEXT NOT NULL
) STRICT;

CREATE TABLE runs (
  sequence INTEGER NOT NULL PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  recipe_hash TEXT NOT NULL REFERENCES recipes (hash),
  recipe_name TEXT NOT NULL,
  environment_key TEXT NOT NULL REFERENCES environments (key),
  state TEXT NOT NULL,
  recipe TEXT NOT NULL,
  starting_configuration TEXT NOT NULL,
  best_configuration TEXT NOT NULL,
  baseline_samples_per_second REAL,
  best_samples_per_second REAL,
  speedup_ratio REAL,
  speedup_low_ratio REAL,
  speedup_high_ratio REAL,
  speedup_pairs INTEGER NOT NULL,
  ceiling_samples_per_second REAL,
  ceiling_bound_by TEXT NOT NULL,
  started_unix_ns INTEGER NOT NULL,
  ended_unix_ns INTEGER NOT NULL,
  tuning_duration_ns INTEGER NOT NULL,
  training TEXT NOT NULL,
  error TEXT NOT NULL,
  output_dir TEXT NOT NULL
) STRICT;
CREATE INDEX runs_by_start ON runs (started_unix_ns);
CREATE INDEX runs_by_job ON runs (recipe_hash, environment_key, started_unix_ns);
CREATE INDEX runs_by_environment ON runs (environment_key, started_unix_ns);

CREATE TABLE trials (
  run_id TEXT NOT NULL REFERENCES runs (id),
  number INTEGER NOT NULL,
  kind TEXT NOT NULL,
  plugin TEXT NOT NULL,
  reference_configuration TEXT NOT NULL,
  change TEXT NOT NULL,
  risk TEXT NOT NULL,
  expected_gain_ratio REAL,
  proposal_reason TEXT NOT NULL,
  verdict TEXT NOT NULL,
  failure TEXT,
  reason TEXT NOT NULL,
  ratio REAL,
  low_ratio REAL,
  high_ratio REAL,
  pairs INTEGER NOT NULL,
  reference_samples_per_second REAL,
  candidate_samples_per_second REAL,
  noise_ratio REAL,
  peak_memory_bytes INTEGER NOT NULL,
  started_unix_ns INTEGER NOT NULL,
  duration_ns INTEGER NOT NULL,
  PRIMARY KEY (run_id, number)
) STRICT;
CREATE INDEX trials_by_plugin ON trials (run_id, plugin, verdict);

CREATE TABLE blocks (
  run_id TEXT NOT NULL,
  trial_number INTEGER NOT NULL,
  pair INTEGER NOT NULL,
  is_candidate INTEGER NOT NULL,
  is_first INTEGER NOT NULL,
  start_monotonic_ns INTEGER NOT NULL,
  duration_ns INTEGER NOT NULL,
  steps INTEGER NOT NULL,
  samples INTEGER NOT NULL,
  first_loss REAL,
  last_loss REAL,
  losses TEXT NOT NULL,
  data_wait_ns INTEGER NOT NULL,
  cpu_ns INTEGER NOT NULL,
  peak_host_memory_bytes INTEGER NOT NULL,
  peak_device_memory_bytes INTEGER NOT NULL,
  PRIMARY KEY (run_id, trial_number, pair, is_candidate),
  FOREIGN KEY (run_id, trial_number) REFERENCES trials (run_id, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE checks (
  sequence INTEGER NOT NULL PRIMARY KEY,
  run_id TEXT NOT NULL,
  trial_number INTEGER NOT NULL,
  risk TEXT NOT NULL,
  passed INTEGER NOT NULL,
  steps INTEGER NOT NULL,
  detail TEXT NOT NULL,
  FOREIGN KEY (run_id, trial_number) REFERENCES trials (run_id, number)
) STRICT;
CREATE INDEX checks_by_trial ON checks (run_id, trial_number);

CREATE TABLE profiles (
  sequence INTEGER NOT NULL PRIMARY KEY,
  run_id TEXT NOT NULL REFERENCES runs (id),
  configuration TEXT NOT NULL,
  metrics TEXT NOT NULL,
  spans TEXT NOT NULL,
  operators TEXT NOT NULL,
  taken_unix_ns INTEGER NOT NULL
) STRICT;
CREATE INDEX profiles_by_run ON profiles (run_id);

-- Exactly what was asked: a plugin's name stays, its version and file change.
CREATE TABLE plugins (
  sequence INTEGER NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  version TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  UNIQUE (name, version, sha256)
) STRICT;

CREATE TABLE plugin_answers (
  sequence INTEGER NOT NULL PRIMARY KEY,
  run_id TEXT NOT NULL REFERENCES runs (id),
  plugin INTEGER NOT NULL REFERENCES plugins (sequence),
  outcome TEXT NOT NULL,
  is_failure INTEGER NOT NULL,
  asked_unix_ns INTEGER NOT NULL,
  is_answered INTEGER NOT NULL
) STRICT;
CREATE INDEX plugin_answers_by_run ON plugin_answers (run_id);

CREATE TABLE best_configurations (
  recipe_hash TEXT NOT NULL REFERENCES recipes (hash),
  environment_key TEXT NOT NULL REFERENCES environments (key),
  run_id TEXT NOT NULL REFERENCES runs (id),
  configuration TEXT NOT NULL,
  speedup_ratio REAL,
  speedup_low_ratio REAL,
  speedup_high_ratio REAL,
  speedup_pairs INTEGER NOT NULL,
  updated_unix_ns INTEGER NOT NULL,
  PRIMARY KEY (recipe_hash, environment_key)
) STRICT;
