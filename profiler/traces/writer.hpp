// SPDX-License-Identifier: Apache-2.0
// Writes traces in the format of torch.profiler (Kineto), *.pt.trace.json.gz, which Perfetto, Chrome,
// TensorBoard's plugin, HTA and reader.hpp open.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "profiler/traces/gzip_file.hpp"

namespace autotuned::traces {

// The members of a trace beside its list of events.
struct TraceHeader {
  std::int64_t process = 0;   // process id
  std::string process_name;   // "autotuned-trainer"
  std::int64_t start_ns = 0;  // when the recording began, since 1970
  bool has_shapes = false;
  bool has_memory = false;
  int cpus = 0;  // CPUs that the process may use; 0: not known
  // The number of this rank. It is not written if `world_size` is 1.
  int rank = 0;
  int world_size = 1;
  std::string backend;              // "gloo"
  std::string devices_json = "[]";  // PyTorch's deviceProperties
};

// An allocation (bytes > 0) or a release (bytes < 0).
struct MemoryChange {
  std::int64_t time_ns = 0;
  std::uint64_t address = 0;
  std::int64_t bytes = 0;
  std::int64_t allocated_bytes = 0;  // allocated on its device afterwards
  std::int64_t reserved_bytes = 0;
  int device_type = 0;  // 0 is the CPU, 1 CUDA
  int device = -1;
};

// How each trace of TraceWriter ends, unpacked: is_own_trace() of reader.hpp tells such traces from others by it.
inline constexpr std::string_view kTraceEnd = ",\n  \"traceName\": \"autotuned profile\"\n}\n";

struct WrittenTrace {
  std::int64_t events = 0;
  std::int64_t bytes = 0;  // size of the file
};

// Writes events in any order, one at a time, directly to the file. Text may contain anything: characters
// that JSON cannot hold are escaped, and bytes that are not UTF-8 become '?'. Times are ns since 1970. One thread at a time.
class TraceWriter {
 public:
  // Errors are those of GzipFile.
  [[nodiscard]] static Result<TraceWriter> create(const std::filesystem::path& file,
                                                  TraceHeader header);

  // Names a thread, shown instead of its number. Viewers sort threads by `place`, the smallest first.
  void name_thread(std::int64_t thread, std::string_view name, int place);

  // Devices and their streams are shown below the threads of the process.
  void name_device(std::int64_t device);
  void name_stream(std::int64_t device, std::int64_t stream);

  // Begins an event with a duration. argument() adds to it until the next event of any kind.
  void begin_event(std::string_view category, std::string_view name, std::int64_t thread,
                   std::int64_t start_ns, std::int64_t length_ns);
  // The same for an event of a device.
  void begin_device_event(std::string_view category, std::string_view name, std::int64_t device,
                          std::int64_t stream, std::int64_t start_ns, std::int64_t length_ns);
  void argument(std::string_view key, std::int64_t value);
  void argument_figure(std::string_view key, double value);  // REQUIRES: it is finite
  void argument(std::string_view key, std::string_view text);
  void argument_json(std::string_view key, std::string_view json);

  // An arrow from one event to another; `id` must be unique among these arrows.
  void link_forward_to_backward(std::int64_t id, std::int64_t from_thread, std::int64_t from_ns,
                                std::int64_t to_thread, std::int64_t to_ns);
  // An arrow from a call to the work that it launched; `id` is their correlation.
  void link_call_to_work(std::int64_t id, std::int64_t thread, std::int64_t call_ns,
                         std::int64_t device, std::int64_t stream, std::int64_t work_ns);
  void memory_change(const MemoryChange& change, std::int64_t thread);

  // Ends the trace at `end_ns`, with the number of events for which there was no room and further notes, one
  // sentence each. Errors: anything that failed since create().
  [[nodiscard]] Result<WrittenTrace> finish(std::int64_t end_ns, std::int64_t lost_events,
                                            const std::vector<std::string>& notes = {});

 private:
  TraceWriter(GzipFile file, TraceHeader header);

  void begin();  // begins the next element of the list
  void end_event();
  void put_place(std::int64_t process, std::int64_t thread);
  void put_time(std::string_view key, std::int64_t ns);
  void put_number(std::int64_t value);
  void put_text(std::string_view text);  // with its quotation marks
  void metadata(std::string_view name, std::int64_t process, std::int64_t thread,
                std::string_view arguments);
  void begin_at(std::string_view category, std::string_view name, std::int64_t process,
                std::int64_t thread, std::int64_t start_ns, std::int64_t length_ns);
  void put_flow_end(std::string_view phase, std::string_view category, std::int64_t id,
                    std::int64_t process, std::int64_t thread, std::int64_t ns);

  GzipFile file_;
  TraceHeader header_;
  std::int64_t base_ns_;
  std::string buffer_;
  std::int64_t events_ = 0;
  bool is_first_ = true;
  bool is_event_open_ = false;
  bool has_arguments_ = false;
};

}  // namespace autotuned::traces
