// SPDX-License-Identifier: Apache-2.0
// Going on with a finished training to a new length (`run --extend`): whose training, from which state, and what becomes of its
// learning rate.
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
  std::string run;              // whose training goes on
  std::filesystem::path state;  // of its end
  // What becomes of one that depends on the length: "stretch" or "restart"; empty: nothing was said.
  std::string schedule;
  // That run; nothing if the sequel has begun before and is continued now, so that all of this has been decided.
  std::optional<storage::RunRow> base;

  // The field `extend` of the trainer's `train`.
  [[nodiscard]] Json to_request() const;
};

// ErrorKind::not_found: the output folder is not there, so that no training has its results in it. Makes nothing.
[[nodiscard]] Result<void> check_place_of_sequel(const recipes::Recipe& recipe);

// The newest finished training of the job with the recipe's seed and output folder, on whatever machine; or a sequel of
// such a one to the recipe's length that was interrupted. ErrorKind::not_found: there is none, or its state has not been kept;
// ErrorKind::invalid: it is as long as the recipe's already.
[[nodiscard]] Result<Sequel> find_sequel(const storage::History& history,
                                         const SessionRequest& request,
                                         const std::string& recipe_hash);

// Whether the learning rate can go on as `sequel` says. `job_facts` is the answer to `load`. ErrorKind::invalid: its schedule
// depends on the length, and nothing was said of it (the error tells how it would go on); or the opposite.
[[nodiscard]] Result<void> check_schedule_of(const Sequel& sequel, const recipes::Recipe& recipe,
                                             const Json& job_facts);

// Makes a new run one that goes on with `base`: with its configuration, as far as these knobs are there, and with what its tuning
// measured. Returns what must be said.
// No rates and no speedup where the configuration is another one than that of `base.best`.
[[nodiscard]] std::vector<std::string> take_over(const storage::RunRow& base,
                                                 const std::vector<recipes::Knob>& knobs,
                                                 storage::RunRow& run);

// Whether the trainer's error says that there is nothing to go on with, and `checkpoint` of this run is not there yet: the same
// command would end there again.
[[nodiscard]] bool cannot_begin(const Error& error, const std::filesystem::path& checkpoint);

// For people: that a training goes on; and that it could, for a run that begins anew.
[[nodiscard]] std::string sequel_text(const Sequel& sequel);
[[nodiscard]] std::string extendable_text(const Sequel& sequel);

}  // namespace autotuned::daemon
