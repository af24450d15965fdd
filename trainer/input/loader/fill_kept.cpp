// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/loader/fill_kept.hpp"

#include "trainer/input/common/shared_work.hpp"

namespace autotuned::input {

void fill_kept(const SampleWriter& writer, std::span<const std::uint32_t> order, std::int64_t first,
               int threads, std::chrono::nanoseconds most,
               const std::function<bool()>& is_cancelled) {
  const std::int64_t samples = std::ssize(order);
  share_work({.items = samples, .threads = threads, .most = most, .is_cancelled = is_cancelled},
             [&] {
               return [&, scratch = writer.make_scratch()](std::int64_t item) mutable {
                 const auto at = static_cast<std::size_t>((first + item) % samples);
                 (void)writer.keep(order[at], scratch);
               };
             });
}

}  // namespace autotuned::input
