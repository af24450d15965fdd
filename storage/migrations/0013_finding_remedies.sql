-- Version 13. What acting on a finding can save at most, in words, and PyTorch code that acts on it ('': of an older version, or none).

ALTER TABLE findings ADD COLUMN gain TEXT NOT NULL DEFAULT '';
ALTER TABLE findings ADD COLUMN code TEXT NOT NULL DEFAULT '';
