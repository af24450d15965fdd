// SPDX-License-Identifier: Apache-2.0
// The C interface, as another program uses it.
#include "trainer/input/library/autotuned_loader.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "tests/golden.hpp"
#include "trainer/input/common/epoch_order.hpp"
#include "trainer/input/datasets/dataset.hpp"

namespace autotuned::input {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kSamples = 23;
constexpr std::size_t kSampleBytes = 12;

Json data() {
  return {{"type", "synthetic"}, {"samples", kSamples}, {"shape", {3, 2, 2}}, {"classes", 7}};
}

// The stored samples and labels, without a loader.
const Dataset& stored() {
  static const std::unique_ptr<Dataset> opened = std::move(*open_dataset("synthetic", data()));
  return *opened;
}

// Takes the text over.
std::string taken(char* text) {
  std::string copy = text != nullptr ? text : "";
  autotuned_loader_free_text(text);
  return copy;
}

struct Close {
  void operator()(autotuned_loader* loader) const { autotuned_loader_close(loader); }
};
using OpenLoader = std::unique_ptr<autotuned_loader, Close>;

OpenLoader open(const Json& settings, Json* description = nullptr) {
  char* text = nullptr;
  char* error = nullptr;
  OpenLoader loader(autotuned_loader_open(settings.dump().c_str(), &text, &error));
  const std::string described = taken(text);
  EXPECT_NE(loader, nullptr) << taken(error);
  if (description != nullptr) *description = Json::parse(described);
  return loader;
}

std::string error_of(const Json& settings) {
  char* error = nullptr;
  char* text = nullptr;
  const OpenLoader loader(autotuned_loader_open(settings.dump().c_str(), &text, &error));
  EXPECT_EQ(loader, nullptr);
  EXPECT_EQ(text, nullptr);
  return taken(error);
}

void start(autotuned_loader* loader, std::int64_t epoch, std::int64_t sample = 0) {
  char* error = nullptr;
  EXPECT_EQ(autotuned_loader_start(loader, epoch, sample, &error), 1) << taken(error);
}

// Gives its tensors back at its end.
class HeldBatch {
 public:
  explicit HeldBatch(autotuned_loader* loader) {
    char* error = nullptr;
    EXPECT_EQ(autotuned_loader_next(loader, &batch_, &error), 1) << taken(error);
  }
  ~HeldBatch() {
    if (batch_.images != nullptr) batch_.images->deleter(batch_.images);
    autotuned_loader_give_back(batch_.targets);
  }
  HeldBatch(const HeldBatch&) = delete;
  HeldBatch& operator=(const HeldBatch&) = delete;

  [[nodiscard]] const autotuned_loader_tensor& images() const { return *batch_.images; }
  [[nodiscard]] const autotuned_loader_tensor& targets() const { return *batch_.targets; }
  [[nodiscard]] std::vector<std::int64_t> labels() const {
    const auto* const first = static_cast<const std::int64_t*>(batch_.targets->data);
    return {first, first + batch_.targets->shape[0]};
  }

 private:
  autotuned_loader_batch batch_{};
};

// The samples of the next batch are these, byte for byte and label for label.
void expect_samples(const HeldBatch& batch, std::span<const std::uint32_t> indices) {
  ASSERT_EQ(batch.images().shape[0], std::ssize(indices));
  ASSERT_EQ(batch.targets().shape[0], std::ssize(indices));
  const auto* bytes = static_cast<const std::uint8_t*>(batch.images().data);
  const std::vector<std::int64_t> labels = batch.labels();
  for (std::size_t i = 0; i < indices.size(); ++i, bytes += kSampleBytes) {
    std::vector<std::uint8_t> expected(kSampleBytes);
    ASSERT_TRUE(stored().read(indices[i], expected));
    EXPECT_EQ(std::vector<std::uint8_t>(bytes, bytes + kSampleBytes), expected) << i;
    EXPECT_EQ(labels[i], stored().label(indices[i])) << i;
  }
}

Json settings(std::int64_t workers) {
  return {{"data", data()}, {"batch_size", 5}, {"workers", workers}, {"seed", 4}};
}

TEST(AutotunedLoader, HasTheVersionOfItsHeader) {
  EXPECT_EQ(autotuned_loader_interface(), AUTOTUNED_LOADER_INTERFACE);
}

TEST(AutotunedLoader, GivesTheOrderOfATrainer) {
  for (const std::int64_t workers : {0, 2}) {
    for (const std::int64_t rank : {0, 1, 2}) {
      Json asked = settings(workers);
      asked["rank"] = rank;
      asked["ranks"] = 3;
      Json description;
      const OpenLoader loader = open(asked, &description);
      EXPECT_EQ(description, (Json{{"samples", 8}, {"batches", 2}, {"classes", Json::array()}}));
      EpochOrder order(kSamples, 4, true, {.rank = rank, .ranks = 3});
      start(loader.get(), 0);
      for (const std::int64_t epoch : {0, 1, 2}) {
        const auto indices = order.of_epoch(epoch);
        expect_samples(HeldBatch(loader.get()), indices.subspan(0, 5));
        expect_samples(HeldBatch(loader.get()), indices.subspan(5));
      }
    }
  }
}

TEST(AutotunedLoader, StartsAnywhere) {
  for (const std::int64_t workers : {0, 2}) {
    const OpenLoader loader = open(settings(workers));
    EpochOrder order(kSamples, 4, true);
    start(loader.get(), 3, 10);
    expect_samples(HeldBatch(loader.get()), order.of_epoch(3).subspan(10, 5));
    start(loader.get(), 1, 20);
    expect_samples(HeldBatch(loader.get()), order.of_epoch(1).subspan(20));
    start(loader.get(), 2);  // which comes next anyway
    expect_samples(HeldBatch(loader.get()), order.of_epoch(2).subspan(0, 5));
  }
}

TEST(AutotunedLoader, RefusesPlacesThatAreNotThere) {
  const OpenLoader loader = open(settings(0));
  const std::vector<std::pair<std::int64_t, std::int64_t>> places = {{-1, 0}, {0, -1}, {0, 24}};
  for (const auto& [epoch, sample] : places) {
    char* error = nullptr;
    EXPECT_EQ(autotuned_loader_start(loader.get(), epoch, sample, &error), 0);
    EXPECT_THAT(taken(error), HasSubstr("there is no sample"));
  }
}

std::string give(autotuned_loader* loader, std::int64_t epoch, std::int64_t sample,
                 const std::vector<std::uint32_t>& indices) {
  char* error = nullptr;
  const int given = autotuned_loader_give(loader, epoch, sample, indices.data(),
                                          static_cast<std::int64_t>(indices.size()), &error);
  EXPECT_EQ(given == 1, error == nullptr);
  return taken(error);
}

TEST(AutotunedLoader, TakesTheBatchesOfItsCaller) {
  const std::vector<std::vector<std::uint32_t>> batches = {
      {22, 0, 5, 5, 1}, {3}, {4, 4}, {0, 1, 2}, {9, 8}};
  for (const std::int64_t workers : {0, 2}) {
    Json asked = settings(workers);
    asked["given_batches"] = true;
    const OpenLoader loader = open(asked);
    start(loader.get(), 0);
    for (std::size_t i = 0; i < batches.size(); ++i)
      EXPECT_EQ(give(loader.get(), 0, static_cast<std::int64_t>(5 * i), batches[i]), "");
    for (const auto& indices : batches)
      expect_samples(HeldBatch(loader.get()), indices);
    char* error = nullptr;
    autotuned_loader_batch none{};
    EXPECT_EQ(autotuned_loader_next(loader.get(), &none, &error), 0);
    EXPECT_THAT(taken(error), HasSubstr("all batches that were given have been taken"));
    EXPECT_EQ(give(loader.get(), 1, 0, {2, 3}), "");
    expect_samples(HeldBatch(loader.get()), std::vector<std::uint32_t>{2, 3});
    // What is left of an epoch is forgotten at the start of the next one.
    EXPECT_EQ(give(loader.get(), 1, 2, {4}), "");
    start(loader.get(), 0);
    EXPECT_EQ(give(loader.get(), 2, 0, {6}), "");
    expect_samples(HeldBatch(loader.get()), std::vector<std::uint32_t>{6});
  }
}

TEST(AutotunedLoader, DrawsByThePositionThatIsGiven) {
  Json asked = settings(0);
  asked["input"] = Json::parse(R"([{"random_crop": {"size": 1}}])");
  const OpenLoader own = open(asked);
  asked["given_batches"] = true;
  asked["workers"] = 2;
  const OpenLoader given = open(asked);
  EpochOrder order(kSamples, 4, true);
  const auto indices = order.of_epoch(2).subspan(10, 5);
  start(own.get(), 2, 10);
  start(given.get(), 0);
  EXPECT_EQ(give(given.get(), 2, 10, {indices.begin(), indices.end()}), "");
  const HeldBatch one(own.get());
  const HeldBatch other(given.get());
  EXPECT_EQ(std::memcmp(one.images().data, other.images().data, std::size_t{5} * 3), 0);
}

TEST(AutotunedLoader, RefusesBatchesThatCannotBe) {
  EXPECT_THAT(give(open(settings(0)).get(), 0, 0, {1}), HasSubstr("an order of its own"));
  Json asked = settings(0);
  asked["given_batches"] = true;
  const OpenLoader loader = open(asked);
  EXPECT_THAT(give(loader.get(), 0, 0, {}), HasSubstr("a batch of 0 samples"));
  EXPECT_THAT(give(loader.get(), 0, 0, {1, 1, 1, 1, 1, 1}), HasSubstr("a batch has 1 to 5"));
  EXPECT_THAT(give(loader.get(), -1, 0, {1}), HasSubstr("of epoch -1"));
  EXPECT_THAT(give(loader.get(), 0, 0, {1, 23}), HasSubstr("there is no sample 23"));
  asked["ranks"] = 2;
  EXPECT_THAT(error_of(asked), HasSubstr("no ranks"));
}

TEST(AutotunedLoader, DescribesItsTensors) {
  Json asked = settings(0);
  const HeldBatch bytes(open(asked).get());  // also after the loader was closed
  EXPECT_EQ(bytes.images().dimensions, 4);
  EXPECT_EQ(std::vector<std::int64_t>(bytes.images().shape, bytes.images().shape + 4),
            (std::vector<std::int64_t>{5, 3, 2, 2}));
  EXPECT_EQ(bytes.images().strides, nullptr);
  EXPECT_EQ(bytes.images().device_type, 1);
  EXPECT_EQ(bytes.images().type_code, 1);
  EXPECT_EQ(bytes.images().type_bits, 8);
  EXPECT_EQ(bytes.images().type_lanes, 1);
  EXPECT_EQ(bytes.targets().dimensions, 1);
  EXPECT_EQ(bytes.targets().type_code, 0);
  EXPECT_EQ(bytes.targets().type_bits, 64);

  asked["input"] = Json::array({"to_float"});
  const OpenLoader loader = open(asked);
  const HeldBatch floats(loader.get());
  EXPECT_EQ(floats.images().type_code, 2);
  EXPECT_EQ(floats.images().type_bits, 32);
  std::vector<std::uint8_t> stored_bytes(kSampleBytes);
  EpochOrder order(kSamples, 4, true);
  ASSERT_TRUE(stored().read(order.of_epoch(0)[0], stored_bytes));
  EXPECT_EQ(static_cast<const float*>(floats.images().data)[3],
            static_cast<float>(stored_bytes[3]) / 255.0F);
}

TEST(AutotunedLoader, HasFloatTargets) {
  const Json asked = {
      {"data",
       {{"type", "synthetic_targets"}, {"samples", 6}, {"shape", {1, 2, 2}}, {"targets", 3}}},
      {"batch_size", 4}};
  const OpenLoader loader = open(asked);
  const HeldBatch batch(loader.get());
  EXPECT_EQ(batch.targets().dimensions, 2);
  EXPECT_EQ(batch.targets().shape[0], 4);
  EXPECT_EQ(batch.targets().shape[1], 3);
  EXPECT_EQ(batch.targets().type_code, 2);
}

TEST(AutotunedLoader, HasMasks) {
  const Json asked = {
      {"data", {{"type", "synthetic_masks"}, {"samples", 6}, {"shape", {3, 8, 9}}, {"classes", 2}}},
      {"batch_size", 2}};
  const OpenLoader loader = open(asked);
  const HeldBatch batch(loader.get());
  EXPECT_EQ(std::vector<std::int64_t>(batch.targets().shape, batch.targets().shape + 3),
            (std::vector<std::int64_t>{2, 8, 9}));
  EXPECT_EQ(batch.targets().type_code, 1);
}

TEST(AutotunedLoader, LetsTheCallerKeepEveryBatch) {
  EpochOrder order(kSamples, 4, true);
  std::vector<std::unique_ptr<HeldBatch>> kept;
  {
    const OpenLoader loader = open(settings(2));
    start(loader.get(), 0);
    for (int i = 0; i < 20; ++i)  // far more than are ready at a time
      kept.push_back(std::make_unique<HeldBatch>(loader.get()));
  }
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const auto indices = order.of_epoch(static_cast<std::int64_t>(i / 5));
    const std::size_t begin = i % 5 * 5;
    const std::size_t count = std::min<std::size_t>(5, indices.size() - begin);
    expect_samples(*kept[i], indices.subspan(begin, count));
  }
}

TEST(AutotunedLoader, UsesMemoryAgain) {
  const OpenLoader loader = open(settings(0));
  std::vector<const void*> places;
  for (int i = 0; i < 10; ++i) {
    const HeldBatch batch(loader.get());
    const void* const place = batch.images().data;
    if (std::ranges::find(places, place) == places.end()) places.push_back(place);
  }
  EXPECT_LE(places.size(), 2U);  // one that is filled, one in the hands of the caller
}

TEST(AutotunedLoader, RefusesWhatItCannotLoad) {
  tests::Cases cases;
  Json asked = settings(0);
  asked["batch_sise"] = 8;
  asked["input"] = Json::array({Json{{"random_flip", {{"p", 0.3}}}}, "to_floats"});
  cases.add("several mistakes", error_of(asked));
  asked = settings(0);
  asked["rank"] = 3;
  asked["ranks"] = 3;
  cases.add("a rank that is not there", error_of(asked));
  asked = settings(0);
  asked["ranks"] = 24;
  asked["drop_last"] = true;
  cases.add("more ranks than samples", error_of(asked));
  asked = settings(0);
  asked["data"] = {
      {"type", "synthetic_tokens"}, {"samples", 6}, {"context", 8}, {"vocabulary", 16}};
  cases.add("tokens", error_of(asked));
  cases.add("no map", error_of("data"));
  tests::expect_golden("trainer/input/library/golden/settings.txt", cases.text());
}

// Threads do not come along: what would wait for one must not.
TEST(AutotunedLoader, DoesNothingInAForkedChild) {
  OpenLoader loader = open(settings(0));
  auto batch = std::make_unique<HeldBatch>(loader.get());
  const pid_t child = ::fork();
  if (child == 0) {
    char* error = nullptr;
    autotuned_loader_batch other{};
    const bool is_refused = autotuned_loader_next(loader.get(), &other, &error) == 0 &&
                            std::strstr(error, "forked") != nullptr;
    const auto* const bytes = static_cast<const volatile std::uint8_t*>(batch->images().data);
    batch.reset();   // its memory stays
    loader.reset();  // as does the loader
    (void)bytes[0];
    ::_exit(is_refused ? 0 : 1);
  }
  ASSERT_GT(child, 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace autotuned::input
