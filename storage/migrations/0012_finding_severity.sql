-- Version 12. How much a finding matters: high, medium, low or note (docs/metrics.md; '': of an older version, not known).

ALTER TABLE findings ADD COLUMN severity TEXT NOT NULL DEFAULT '';
