// SPDX-License-Identifier: Apache-2.0
// What the agent in a script answers, without a script: steps that take no time and say that they took some.
//
// `behaviour` is an object; settings are "knob=value":
//   factors          by setting, how many times the rate it gives
//   faults           by setting, the kind of error with which `run` fails
//   wrong            settings under which another model is trained
//   other_batches    settings under which a check sees batches of other samples
//   samples_per_step 8; 0: they do not come from a loader
//   once             by setting, the nanoseconds that a block says it took once; memory.malloc has such a cost then
//   samples_left     0: not known; most_samples_left: the same, by "epochs"
//   notes            of `load`
//   timeouts         so many requests `run` find no clean step
//   renewals         so many of them find that the script has made its optimizer anew
//   steps_after      so many steps are made behind `finish` (50)
//   killed           nothing is said at the end of the script
//   mute             says no hello and closes the socket
//   no_step          why no step was recognised: the script ends instead of an answer to `load`
//   ends_at          the number of the request, from 1, at which the script ends by itself
//   closes_at        the same, without a word
//   detaches_at      the same; the agent lets go
//   waits_at         the same; it answers nothing more, and waits until the session is gone
//   stalls           {"request": name, "lock": file}: the answer comes once the agent had that lock
//   interrupts_at    the same; the process gets SIGTERM from outside first
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/frame.hpp"
#include "base/json.hpp"

namespace autotuned {

class FakeAgent {
 public:
  FakeAgent(Descriptor socket, Json behaviour)
      : channel_(std::move(socket)), behaviour_(std::move(behaviour)) {}

  // Until it lets go: after `finish`, at the end that the behaviour asks for, or when the session is gone.
  void serve();

  // As they came.
  [[nodiscard]] const std::vector<Json>& requests() const { return requests_; }
  // The configuration in force when it let go.
  [[nodiscard]] const Json& configuration() const { return configuration_; }
  [[nodiscard]] std::int64_t steps() const { return steps_; }

 private:
  // False: the conversation is over.
  bool answer(const Json& request);
  bool ends_here();
  void stall(const std::string& request) const;
  [[nodiscard]] Json load() const;
  [[nodiscard]] Json run(const Json& request);
  [[nodiscard]] Json check(const Json& request);
  void step(std::int64_t count) { steps_ += count; }
  [[nodiscard]] std::int64_t number(const char* field, std::int64_t otherwise) const {
    return behaviour_.value(field, otherwise);
  }

  FrameChannel channel_;
  Json behaviour_;
  Json configuration_;
  std::vector<Json> requests_;
  std::int64_t steps_ = 0;
  std::int64_t timeouts_ = 0;
  std::int64_t renewals_ = 0;
  std::mt19937_64 generator_{7};
};

}  // namespace autotuned
