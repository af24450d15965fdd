-- Version 10. Runs stand in the order of their numbers: clocks jump. What a run trains beside its job (seed, length,
-- output folder) is its plan, in canonical JSON: the same command continues runs of its own plan only. A best
-- configuration says whether the search that found it tried every proposal; of older ones nobody knows.

ALTER TABLE runs ADD COLUMN plan TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN is_tune_only INTEGER NOT NULL DEFAULT 0;
UPDATE runs SET plan = json_object(
  'epochs', json_extract(recipe, '$.train.epochs'), 'output', output_dir,
  'seed', json_extract(recipe, '$.seed'), 'steps', json_extract(recipe, '$.train.steps'))
WHERE json_valid(recipe);
ALTER TABLE best_configurations ADD COLUMN is_complete INTEGER NOT NULL DEFAULT 0;

DROP INDEX runs_by_order;
DROP INDEX runs_by_job;
DROP INDEX runs_by_environment;
CREATE INDEX runs_by_job ON runs (recipe_hash, environment_key);
CREATE INDEX runs_by_order ON runs (sequence, id, started_unix_ns);
CREATE INDEX runs_by_environment ON runs (environment_key, sequence, id, started_unix_ns);
