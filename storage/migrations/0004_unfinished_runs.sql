-- Version 4. Sessions and lists look for runs whose process may have died.

CREATE INDEX runs_unfinished ON runs (state, sequence, id) WHERE state IN ('tuning', 'training');
