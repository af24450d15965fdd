// SPDX-License-Identifier: Apache-2.0
// What a session process of these tests does, by the part that AUTOTUNED_TRAINER names, and how tests wait.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <thread>

namespace autotuned::daemon {

inline constexpr const char* kShort = "short";  // ends well at once
inline constexpr const char* kHeld = "held";    // ends well when there is a file "go" in its folder
inline constexpr const char* kBusy =
    "busy";  // the same, and has trials, one of which fails, every few milliseconds
// Dies while it loads a plugin, then before it has put that on record, then after; then as kShort.
inline constexpr const char* kFaulty = "faulty";
inline constexpr const char* kDeaf = "deaf";  // stops before it reads its request; then as kShort

// Runs what is due until `is_so`; false when it does not get there.
template <class Condition>
bool run_until(boost::asio::io_context& context, Condition is_so) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!is_so()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    context.restart();
    if (context.run_one_for(std::chrono::milliseconds(20)) == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  return true;
}

}  // namespace autotuned::daemon
