// SPDX-License-Identifier: Apache-2.0
// What a trainer says, once its frames are JSON (frame_fuzz): blocks, profiles and progress, read by
// everything that reads them. The input is one frame.
#include <cmath>
#include <cstdio>

#include "base/configuration.hpp"
#include "base/json.hpp"
#include "base/trial.hpp"
#include "daemon/report/story.hpp"
#include "daemon/screen/progress_view.hpp"
#include "tests/fuzz/target.hpp"

namespace {

using namespace autotuned;

void read_block(const Json& answer) {
  const auto block = Block::from_json(answer);
  if (!block) {
    FUZZ_CHECK(block.error().kind == ErrorKind::invalid && !block.error().what.empty());
    return;
  }
  FUZZ_CHECK(block->samples_per_second() >= 0.0);
  // As text, in which a loss that is no number is null.
  const auto written = parse_json(to_line(block->to_json()), "again");
  FUZZ_CHECK(written);
  const auto again = Block::from_json(*written);
  FUZZ_CHECK(again && again->steps == block->steps && again->losses.size() == block->losses.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static std::FILE* const nowhere = std::fopen("/dev/null", "w");
  const auto frame = parse_json(fuzz::text_of(data, size), "frame");
  if (!frame) return 0;
  const Json& ok = member(*frame, "ok");
  const Json& answer = ok.is_object() ? ok : *frame;
  read_block(answer);
  for (const daemon::Share& share : daemon::shares_of(answer))
    FUZZ_CHECK(std::isfinite(share.ratio));
  FUZZ_CHECK(daemon::operators_of(answer, 10).size() <= 10);
  if (const auto configuration = Configuration::from_json(member(*frame, "configuration"))) {
    const auto again = Configuration::from_json(configuration->to_json());
    FUZZ_CHECK(again && *again == *configuration);
  }
  daemon::ProgressView view(nowhere, {.is_live = true, .is_coloured = true, .is_verbose = true});
  view.show({{"event", "training"}, {"progress", member(*frame, "progress")}});
  view.show(*frame);  // events of a session look like it
  return 0;
}
