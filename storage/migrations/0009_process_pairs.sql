-- Version 9. Why a trial was rejected (base/trial.hpp, RejectionReason; NULL: accepted, or from a version that only knew the
-- sentence), all samples over all time (0: not known), and which blocks belong to which pair of processes.

ALTER TABLE trials ADD COLUMN rejection TEXT;
ALTER TABLE trials ADD COLUMN total_ratio REAL NOT NULL DEFAULT 0;
ALTER TABLE trials ADD COLUMN process_pairs INTEGER NOT NULL DEFAULT 0;
ALTER TABLE blocks ADD COLUMN process_pair INTEGER NOT NULL DEFAULT 1;
