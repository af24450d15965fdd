// SPDX-License-Identifier: Apache-2.0
#include "daemon/screen/progress_view.hpp"

#include <algorithm>
#include <string>

#include "daemon/screen/run_lines.hpp"

namespace autotuned::daemon {

namespace {

using std::chrono::nanoseconds;

// The least time between two drawings. Drawing takes CPU time from the measurement, so fast blocks and steps share a
// drawing.
constexpr nanoseconds kMinBetweenDrawings = std::chrono::milliseconds(200);

nanoseconds time_now() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

}  // namespace

ProgressView::ProgressView(std::FILE* out, const ScreenView& options)
    : out_(out), options_(options), panel_(out) {
  progress_.started = time_now();
  progress_.is_only_watched = options.is_only_watched;
  tick();
}

// Without a terminal a line is as long as it is: another program reads it, or an editor breaks it.
LineStyle ProgressView::style(int columns) const {
  return {.columns = options_.is_live ? columns : 0,
          .is_coloured = options_.is_coloured,
          .is_verbose = options_.is_verbose,
          .has_panel = options_.is_live};
}

void ProgressView::show(const Json& event) {
  take(progress_, event, time_now());
  if (options_.is_live) {
    // The last column is left free: some terminals break a line that is full.
    const LineStyle of_lines = style(std::max(screen_size(out_).columns - 1, 1));
    const std::vector<Line> lasting = lasting_lines(event, progress_, of_lines);
    if (lasting.empty() && time_now() - drawn_at_ < kMinBetweenDrawings) return;
    draw(lasting);
    return;
  }
  const LineStyle of_lines = style(0);
  for (const Line& line : lasting_lines(event, progress_, of_lines))
    std::fputs((drawn(line, of_lines) + "\n").c_str(), out_);
  std::fflush(out_);
}

void ProgressView::tick() {
  if (options_.is_live && !is_finished_) draw({});
}

void ProgressView::finish() {
  is_finished_ = true;
  panel_.erase();
}

void ProgressView::draw(const std::vector<Line>& lasting) {
  drawn_at_ = time_now();
  const ScreenSize size = screen_size(out_);
  const LineStyle of_lines = style(std::max(size.columns - 1, 1));
  const std::vector<Line> panel =
      is_finished_ ? std::vector<Line>() : panel_lines(progress_, drawn_at_, of_lines);
  panel_.draw(lasting, panel, of_lines, size);
}

}  // namespace autotuned::daemon
