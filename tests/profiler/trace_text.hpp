// SPDX-License-Identifier: Apache-2.0
// Traces written by hand, in Kineto's form.
#pragma once

#include <string>

#include "base/json.hpp"
#include "profiler/traces/reader.hpp"
#include "tests/base/temporary_folder.hpp"

namespace autotuned {

// Times are microseconds.
class TraceText {
 public:
  TraceText& event(const std::string& category, const std::string& name, double start,
                   double length, const Json& arguments = Json::object(), int thread = 1) {
    const bool is_device = category == "kernel" || category.starts_with("gpu_mem");
    json_["traceEvents"].push_back({{"ph", "X"},
                                    {"cat", category},
                                    {"name", name},
                                    {"pid", is_device ? arguments.value("device", 0) : 100},
                                    {"tid", thread},
                                    {"ts", start},
                                    {"dur", length},
                                    {"args", arguments}});
    return *this;
  }
  TraceText& step(int number, double start, double length) {
    return event("user_annotation", "ProfilerStep#" + std::to_string(number), start, length);
  }
  // A call of the runtime and the kernel that it launches.
  TraceText& kernel(const std::string& name, double call, double start, double length,
                    Json arguments = Json::object()) {
    const int correlation = ++correlation_;
    arguments["correlation"] = correlation;
    if (!arguments.contains("device")) arguments["device"] = 0;
    Json call_arguments = {{"correlation", correlation}};
    if (arguments.contains("External id")) call_arguments["External id"] = arguments["External id"];
    event("cuda_runtime", "cudaLaunchKernel", call, 1, call_arguments);
    return event("kernel", name, start, length, arguments, 7);
  }
  // A call of a Python function, as with_stack=True has it. 0: it has no number.
  TraceText& python(const std::string& name, double start, double length, int id = 0,
                    int caller = 0, int thread = 1) {
    Json arguments = {{"Python parent id", caller > 0 ? Json(caller) : Json()}};
    if (id > 0) arguments["Python id"] = id;
    return event("python_function", name, start, length, arguments, thread);
  }
  // A GPU of 1,000 bytes, of which `bytes` are taken from here on.
  TraceText& allocated(int bytes) {
    json_["deviceProperties"] = {{{"id", 0}, {"computeMajor", 8}, {"totalGlobalMem", 1000}}};
    json_["traceEvents"].push_back(
        {{"ph", "i"},
         {"name", "[memory]"},
         {"ts", 5},
         {"args",
          {{"Bytes", 10}, {"Total Allocated", bytes}, {"Device Type", 1}, {"Device Id", 0}}}});
    return *this;
  }
  // `bytes` taken, or given back, which leave `allocated`. Device type 1 is CUDA.
  TraceText& memory(double time, int bytes, int allocated, int device_type = 0, int device = -1,
                    int thread = 1, int address = 0) {
    json_["traceEvents"].push_back({{"ph", "i"},
                                    {"name", "[memory]"},
                                    {"pid", 100},
                                    {"tid", thread},
                                    {"ts", time},
                                    {"args",
                                     {{"Bytes", bytes},
                                      {"Total Allocated", allocated},
                                      {"Device Type", device_type},
                                      {"Device Id", device}}}});
    if (address != 0) json_["traceEvents"].back()["args"]["Addr"] = address;
    return *this;
  }
  Json& json() { return json_; }
  [[nodiscard]] std::string text() const { return json_.dump(1); }

 private:
  Json json_ = {{"traceEvents", Json::array()}};
  int correlation_ = 0;
};

// Reads `text` as a file of its own.
inline Result<traces::Trace> read_trace_text(const std::string& text,
                                             traces::ReadOptions options = {}) {
  const TemporaryFolder folder;
  auto trace = traces::read_trace(folder.write("trace.json", text), options);
  if (trace) trace->file = "trace.json";
  return trace;
}

}  // namespace autotuned
