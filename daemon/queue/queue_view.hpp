// SPDX-License-Identifier: Apache-2.0
// The interface for other ways to show the queue than the daemon's socket, such as the web page. All calls are on the
// daemon's thread, and none may block.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/json.hpp"
#include "base/result.hpp"
#include "daemon/queue/events.hpp"
#include "daemon/queue/queue.hpp"

namespace boost::asio {
class io_context;
}

namespace autotuned::daemon {

// What a view can ask the daemon. Outlives the view.
class QueueAccess {
 public:
  virtual ~QueueAccess() = default;
  // The answer of `status --json`, without the memory of runs, which takes reading every process of the machine.
  [[nodiscard]] virtual Json status() const = 0;
  // Null when there is no such job.
  [[nodiscard]] virtual const QueuedRun* find(std::int64_t job) const = 0;
  // Cancels a job, as the command `cancel` does.
  [[nodiscard]] virtual Result<std::int64_t> cancel(std::int64_t job) = 0;
  // ErrorKind::not_found for a job that has not started.
  [[nodiscard]] virtual Result<EventReader> events(std::int64_t job) const = 0;
  // How the job ended; nothing until that is on disk.
  [[nodiscard]] virtual std::optional<Json> end_of(std::int64_t job) const = 0;
};

class QueueView {
 public:
  virtual ~QueueView() = default;
  // Called when a job has new events, or when its end can be reported.
  virtual void changed(std::int64_t job) = 0;
  // The address for a browser. It holds a secret of this user.
  [[nodiscard]] virtual std::string address() const = 0;
  // Called when the daemon ends: refuse new connections and close the open ones.
  virtual void stop() = 0;
};

using MakeQueueView =
    std::function<Result<std::unique_ptr<QueueView>>(boost::asio::io_context&, QueueAccess&)>;

}  // namespace autotuned::daemon
