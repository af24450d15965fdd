// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/trace_page.hpp"

#include <sys/stat.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include "base/file.hpp"
#include "base/process/process.hpp"
#include "daemon/common/installation_paths.hpp"

namespace autotuned::daemon {

namespace {

constexpr std::int64_t kMaxTraceBytes = std::int64_t{64} << 20U;
constexpr std::size_t kMaxPageBytes = std::size_t{16} << 20U;
constexpr std::chrono::seconds kLimit{60};
constexpr std::chrono::milliseconds kLook{100};
// A trace gets its final name some moments after the run began, and clocks of file systems are coarse.
constexpr std::int64_t kClockSlackNs = 2'000'000'000;

// The name of a fresh file, which goes with it.
class TemporaryFile {
 public:
  TemporaryFile() {
    std::error_code failed;
    auto folder = std::filesystem::temp_directory_path(failed) / "autotuned-page-XXXXXX";
    std::string name = folder.string();
    if (failed || ::mkdtemp(name.data()) == nullptr) return;
    folder_ = name;
  }
  ~TemporaryFile() {
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  [[nodiscard]] bool is_there() const { return !folder_.empty(); }
  [[nodiscard]] std::filesystem::path path() const { return folder_ / "page.html"; }

 private:
  std::filesystem::path folder_;  // 0700
};

// Nothing where `file` is a trace of this run.
std::optional<Error> fault_of(const std::filesystem::path& file, const storage::RunRow& run) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return Error{ErrorKind::not_found, "the run left no such trace", file.string(),
                 "runs record one where `autotuned explain` tells findings"};
  }
  const std::int64_t written_ns =
      std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  const bool is_before = written_ns < run.started_unix_ns - kClockSlackNs;
  const bool is_after = run.ended_unix_ns > 0 && written_ns > run.ended_unix_ns + kClockSlackNs;
  if (is_before || is_after) {
    return Error{ErrorKind::not_found, "the trace is of another run in the same output folder",
                 file.string(), ""};
  }
  if (status.st_size > kMaxTraceBytes) {
    return Error{ErrorKind::invalid, "the trace is too large for the page", file.string(),
                 "`autotuned analyze --html FILE TRACE` writes its page"};
  }
  return std::nullopt;
}

}  // namespace

WebAnswer trace_page(const storage::RunRow& run, const std::string& which,
                     const std::function<bool()>& is_stopped) {
  if (run.output_dir.empty()) {
    return error_web_answer({ErrorKind::not_found, "runs of a script leave no trace", run.id.text,
                             "`autotuned analyze` reads those of torch.profiler"});
  }
  const std::filesystem::path trace =
      std::filesystem::path(run.output_dir) / "log" / (which + ".pt.trace.json.gz");
  if (const auto fault = fault_of(trace, run)) return error_web_answer(*fault);
  const TemporaryFile page;
  if (!page.is_there()) {
    return error_web_answer(
        {ErrorKind::io, "there is no place for the page", "$TMPDIR or /tmp", "make room there"});
  }
  ProcessSpec spec;
  spec.program = find_installation_paths().program;
  spec.arguments = {"analyze", "--html", page.path().string(), trace.string()};
  spec.environment = environment_of({"HOME", "PATH", "TMPDIR", "LD_LIBRARY_PATH"});
  spec.log = "/dev/null";
  auto process = Process::start(spec);
  if (!process) return error_web_answer(process.error());
  const auto end = std::chrono::steady_clock::now() + kLimit;
  // A process that takes too long is ended by the destructor of `process`.
  while (!process->wait(kLook)) {
    if (!is_stopped() && std::chrono::steady_clock::now() < end) continue;
    return error_web_answer({ErrorKind::timeout, "the trace could not be read in time",
                             trace.string(),
                             "`autotuned analyze --html FILE TRACE` takes its time"});
  }
  auto text = read_file(page.path(), kMaxPageBytes);
  if (!text) {
    return error_web_answer({ErrorKind::corrupt, "the trace cannot be read", trace.string(),
                             "`autotuned analyze TRACE` says why"});
  }
  // The page has a policy of its own that names its script and style by their hashes; this one takes away its origin, so that
  // nothing in it reaches the rest of the daemon.
  return {.type = "text/html; charset=utf-8",
          .body = *std::move(text),
          .headers = {{"Content-Security-Policy",
                       "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; "
                       "style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
                       "frame-ancestors 'none'"}}};
}

}  // namespace autotuned::daemon
