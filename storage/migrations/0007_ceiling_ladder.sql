-- The rungs below a run's ceiling as JSON: [{"rung", "samples_per_second", "reached_ratio"}], the lowest first.

ALTER TABLE runs ADD COLUMN ceiling_ladder TEXT NOT NULL DEFAULT '[]';
