// SPDX-License-Identifier: Apache-2.0
// What shows the queue beside the daemon's own socket, such as the web page. Everything here happens on the daemon's
// thread, and no call may block.
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

// The daemon, as a view asks it. Outlives the view.
class QueueAccess {
 public:
  virtual ~QueueAccess() = default;
  // What `status --json` tells, but for the memory of runs: that takes a look at every process of the machine.
  [[nodiscard]] virtual Json status() const = 0;
  // Null when there is no such job.
  [[nodiscard]] virtual const QueuedRun* find(std::int64_t job) const = 0;
  // As the command `cancel` does it.
  [[nodiscard]] virtual Result<std::int64_t> cancel(std::int64_t job) = 0;
  // ErrorKind::not_found for a job that has not started.
  [[nodiscard]] virtual Result<EventReader> events(std::int64_t job) const = 0;
  // How it ended; nothing before that is on disk.
  [[nodiscard]] virtual std::optional<Json> end_of(std::int64_t job) const = 0;
};

class QueueView {
 public:
  virtual ~QueueView() = default;
  // The events of a job have grown, or its end can be told.
  virtual void changed(std::int64_t job) = 0;
  // Where a browser finds it; a secret of this user.
  [[nodiscard]] virtual std::string address() const = 0;
  // The daemon ends: nobody new is let in, and what is open is closed.
  virtual void stop() = 0;
};

using MakeQueueView =
    std::function<Result<std::unique_ptr<QueueView>>(boost::asio::io_context&, QueueAccess&)>;

}  // namespace autotuned::daemon
