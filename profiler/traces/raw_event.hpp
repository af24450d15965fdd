// SPDX-License-Identifier: Apache-2.0
// One element of a trace's list of events, as pieces of its text.
#pragma once

#include <string_view>

namespace autotuned::traces {

// Strings are without their quotation marks and with their escapes. Empty: the event does not have it.
struct RawEvent {
  std::string_view phase;
  std::string_view category;
  std::string_view name;
  std::string_view process;
  std::string_view thread;
  std::string_view start;
  std::string_view length;
  // From "args":
  std::string_view external_id;
  std::string_view correlation;
  std::string_view device;
  std::string_view stream;
  std::string_view bytes;
  std::string_view blocks_per_sm;
  std::string_view occupancy;
  std::string_view input_types;
  std::string_view module;
  std::string_view input_shapes;
  std::string_view input_values;
  std::string_view sequence;
  std::string_view forward_thread;
  std::string_view address;
  std::string_view allocated;
  std::string_view reserved;
  std::string_view device_type;
  std::string_view device_id;
  std::string_view label;  // name of a thread
  std::string_view call_stack;
  std::string_view python_id;
  std::string_view python_caller;
  std::string_view collective;           // "allreduce"
  std::string_view collective_elements;  // number that a rank sends
  std::string_view collective_type;      // "Float"
};

}  // namespace autotuned::traces
