-- Version 11. What the change of a trial costs once in a training, which no block shows (base/trial.hpp; 0: nothing, or not known).

ALTER TABLE trials ADD COLUMN one_time_ns INTEGER NOT NULL DEFAULT 0;
