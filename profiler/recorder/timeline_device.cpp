// SPDX-License-Identifier: Apache-2.0
#include "profiler/recorder/timeline_device.hpp"

#include "base/text.hpp"

namespace autotuned::profiler {

void add(DeviceLosses& to, const DeviceLosses& more) {
  constexpr std::size_t kMostDamage = 8;
  to.dropped += more.dropped;
  to.over_limit += more.over_limit;
  to.untimed += more.untimed;
  to.before_launch += more.before_launch;
  to.without_call += more.without_call;
  to.damaged_buffers += more.damaged_buffers;
  for (const std::string& damage : more.damage) {
    if (to.damage.size() < kMostDamage) to.damage.push_back(damage);
  }
}

std::vector<std::string> to_sentences(const DeviceLosses& losses) {
  std::vector<std::string> sentences;
  const auto add = [&](std::int64_t count, const char* one, const char* many) {
    if (count > 0) {
      sentences.push_back(count == 1 ? std::string("1 ") + one : format_count(count) + " " + many);
    }
  };
  add(losses.dropped, "record of the GPU was lost: CUPTI had no buffer for it",
      "records of the GPU were lost: CUPTI had no buffer for them");
  add(losses.over_limit, "record of the GPU was left out: the recording was full",
      "records of the GPU were left out: the recording was full");
  add(losses.untimed, "record of the GPU has no usable time and was left out",
      "records of the GPU have no usable time and were left out");
  add(losses.before_launch,
      "event of the GPU began before the call that launched it: clocks differ",
      "events of the GPU began before the calls that launched them: clocks differ");
  add(losses.without_call, "event of the GPU belongs to no recorded call",
      "events of the GPU belong to no recorded call");
  add(losses.damaged_buffers, "buffer of CUPTI was damaged, what comes after in it is missing",
      "buffers of CUPTI were damaged, what comes after in them is missing");
  sentences.insert(sentences.end(), losses.damage.begin(), losses.damage.end());
  return sentences;
}

}  // namespace autotuned::profiler
