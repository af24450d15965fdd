// SPDX-License-Identifier: Apache-2.0
// Finds the finished training that a run extends to a new length (`run --extend`), and decides how its learning rate
// goes on.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"
#include "daemon/common/session_request.hpp"
#include "recipes/knobs.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

struct Sequel {
  std::string run;              // the run whose training goes on
  std::filesystem::path state;  // of its end
  // What a learning-rate schedule that depends on the length does: "stretch" or "restart"; empty: nothing was said.
  std::string schedule;
  // The row of that run; nothing if the sequel had begun before and is continued now, with these decisions made.
  std::optional<storage::RunRow> base;

  // The field `extend` of the trainer's `train`.
  [[nodiscard]] Json to_request() const;
};

// ErrorKind::not_found: the output folder does not exist, so there is no training to extend. Makes nothing.
[[nodiscard]] Result<void> check_place_of_sequel(const recipes::Recipe& recipe);

// Finds the newest finished training of the job with the recipe's seed and output folder, on any machine; or an
// interrupted sequel of such a training to the recipe's length. ErrorKind::not_found: there is none, or its state has
// not been kept; ErrorKind::invalid: it is as long as the recipe's already.
[[nodiscard]] Result<Sequel> find_sequel(const storage::History& history,
                                         const SessionRequest& request,
                                         const std::string& recipe_hash);

// Whether the recipe's evaluate.patience lets the training of `sequel` go on: as many evaluations in a row as that were
// no better at its end, so it would end there again. ErrorKind::invalid: it does not.
[[nodiscard]] Result<void> check_patience_of(const Sequel& sequel, const recipes::Recipe& recipe);

// What of find_sequel() and check_patience_of() no run that ends meanwhile changes, for use before a session waits for
// its device. A training that is missing is no error here: a run that is at work may be that one.
[[nodiscard]] Result<void> check_length_of_sequel(const storage::History& history,
                                                  const SessionRequest& request,
                                                  const std::string& recipe_hash);

// Whether the learning rate can go on as `sequel` says. `job_facts` is the answer to `load`. ErrorKind::invalid: its schedule
// depends on the length, and nothing was said of it (the error tells how it would go on); or the opposite.
[[nodiscard]] Result<void> check_schedule_of(const Sequel& sequel, const recipes::Recipe& recipe,
                                             const Json& job_facts);

// Fills a new run that goes on with `base`: its configuration, without unknown knobs, and what its tuning measured.
// Rates and speed-up are left out if the configuration differs from `base.best`. Returns messages for the user.
[[nodiscard]] std::vector<std::string> take_over(const storage::RunRow& base,
                                                 const std::vector<recipes::Knob>& knobs,
                                                 storage::RunRow& run);

// Whether the trainer's error says that there is nothing to go on with, while this run has no `checkpoint` yet: the
// same command would fail again.
[[nodiscard]] bool cannot_begin(const Error& error, const std::filesystem::path& checkpoint);

// A message that a faster configuration than that of the training of `base` is stored for its job, and why the sequel does not take it;
// empty if none is.
[[nodiscard]] std::string faster_known_text(const std::optional<storage::BestRow>& best,
                                            const storage::RunRow& base);

// Messages for people: that a training is extended; and, for a run that begins anew, that one could be.
[[nodiscard]] std::string sequel_text(const Sequel& sequel);
[[nodiscard]] std::string extendable_text(const Sequel& sequel, const recipes::Recipe& recipe);

}  // namespace autotuned::daemon
