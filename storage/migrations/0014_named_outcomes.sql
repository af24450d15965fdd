-- Version 14. What only sentences told before. plugin_answers.kind: what the row is (storage/history.hpp, AnswerKind); subject: what a row about
-- the machine is about, such as clock or load ('' for the others). trials.is_given_up: the trial ended before its interval excluded a gain
-- (base/trial.hpp). runs.training.disturbance_subjects: the subject of each text of training.disturbances; untuned_cause and
-- is_untuned_by_script: what training.untuned says (daemon/report/script_report.hpp); fallbacks[].is_memory_of_others.
-- Here the sentences of older rows are read, for the last time.

ALTER TABLE plugin_answers ADD COLUMN kind TEXT NOT NULL DEFAULT 'asked';
ALTER TABLE plugin_answers ADD COLUMN subject TEXT NOT NULL DEFAULT '';
UPDATE plugin_answers SET kind = CASE
  WHEN outcome GLOB 'is refused: *' THEN 'refused'
  WHEN outcome GLOB 'is unsupported: *' THEN 'unsupported'
  ELSE 'asked' END;
UPDATE plugin_answers SET
  kind = 'machine',
  subject = substr(outcome, 1, max(instr(outcome, ': ') - 1, 0))
WHERE plugin IN (SELECT sequence FROM plugins WHERE name = '(machine)');

-- Versions before 9 stored no name of a rejection. An ablation of theirs that ended undecided has dropped its change: 'no_gain' says so.
UPDATE trials SET rejection = CASE
  WHEN (SELECT passed FROM checks WHERE checks.run_id = trials.run_id AND checks.trial_number = trials.number
        ORDER BY sequence DESC LIMIT 1) = 0 THEN 'not_same_model'
  WHEN pairs > 0 AND high_ratio < 1.0 THEN 'slower'
  WHEN reason GLOB 'no gain shown in its time*' AND kind <> 'ablation' THEN 'undecided_in_time'
  WHEN reason GLOB 'no gain*' OR reason GLOB 'gain unlikely*' THEN 'no_gain'
  END
WHERE verdict = 'rejected' AND rejection IS NULL;

-- After the names, which older rows get above.
ALTER TABLE trials ADD COLUMN is_given_up INTEGER NOT NULL DEFAULT 0;
UPDATE trials SET is_given_up = 1 WHERE rejection = 'no_gain' AND reason GLOB 'gain unlikely*';

UPDATE runs SET training = json_set(training, '$.disturbance_subjects', (
  SELECT json_group_array(substr(value, 1, max(instr(value, ': ') - 1, 0))) FROM json_each(runs.training, '$.disturbances')))
WHERE CASE WHEN json_valid(training) THEN json_type(training, '$.disturbances') = 'array' END;

UPDATE runs SET training = json_set(training,
  '$.untuned_cause', replace(
    CASE WHEN json_extract(training, '$.untuned') GLOB 'it *' THEN substr(json_extract(training, '$.untuned'), 4)
    ELSE json_extract(training, '$.untuned') END, '; what was tried is on record', ''),
  '$.is_untuned_by_script', json(CASE WHEN json_extract(training, '$.untuned') GLOB 'it *' THEN 'true' ELSE 'false' END))
WHERE CASE WHEN json_valid(training) THEN json_type(training, '$.untuned') = 'text' END;

UPDATE runs SET training = json_set(training, '$.fallbacks', (
  SELECT json_group_array(json_set(value, '$.is_memory_of_others', json(
    CASE WHEN instr(json_extract(value, '$.error'), 'end the other programs on this GPU') > 0 THEN 'true' ELSE 'false' END)))
  FROM json_each(runs.training, '$.fallbacks')))
WHERE CASE WHEN json_valid(training) THEN json_type(training, '$.fallbacks') = 'array'
  AND NOT EXISTS (SELECT 1 FROM json_each(runs.training, '$.fallbacks') WHERE type <> 'object') END;
