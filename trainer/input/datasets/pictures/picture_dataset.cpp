// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/datasets/pictures/picture_dataset.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "base/text.hpp"
#include "trainer/input/common/random.hpp"
#include "trainer/input/datasets/damage.hpp"
#include "trainer/input/datasets/damage_search.hpp"
#include "trainer/input/datasets/dataset_types.hpp"
#include "trainer/input/datasets/pictures/mask_files.hpp"
#include "trainer/input/decode/picture_decoder.hpp"

namespace autotuned::input {
namespace {

// How many files are examined before training; each takes some tens of microseconds.
constexpr std::int64_t kMaxInspected = 20'000;
// Where nearly every header ends, notes of the camera included.
constexpr std::size_t kHeaderBytes = std::size_t{64} << 10U;

// How long other damaged files are searched for once one is known: less than a person would wait.
constexpr std::chrono::nanoseconds kMaxSearching = std::chrono::seconds(10);

struct Looked {
  SampleShape shape;
  std::int64_t bytes = 0;
};

template <typename Decoder>
Result<Looked> look_at(const PictureSource& source, std::int64_t item, Decoder& decoder,
                       std::vector<std::uint8_t>& bytes) {
  auto read = source.read_front(item, kHeaderBytes, bytes);
  if (!read) return tl::unexpected(read.error());
  auto shape = decoder.begin(bytes);
  if (!shape && bytes.size() == kHeaderBytes) {
    read = source.read_front(item, kMaxPictureBytes, bytes);
    if (!read) return tl::unexpected(read.error());
    shape = decoder.begin(bytes);
  }
  if (!shape) {
    shape.error().where = source.name(item);
    return tl::unexpected(shape.error());
  }
  return Looked{*shape, read->bytes};
}

struct LookedAt {
  SampleType type;
  Dataset::Stored stored;
  std::int64_t good = 0;
  std::string doubt;
  DamageFound damaged;  // where damaged files are errors
};

// `Decoder` is a JpegDecoder or a PictureDecoder. `masks`: null if there are none. `damage`: null if a damaged file is
// an error.
template <typename Decoder>
Result<LookedAt> look_at_all(const PictureSource& source, const MaskFiles* masks, Damage* damage) {
  Decoder decoder;
  MaskPeek peek;
  std::vector<std::uint8_t> bytes;
  LookedAt all;
  SampleType& type = all.type;
  const std::int64_t count = std::min(source.size(), kMaxInspected);
  for (std::int64_t i = 0; i < count; ++i) {
    auto looked = look_at(source, i, decoder, bytes);
    if (looked && masks != nullptr) {
      if (auto fits = masks->look_at(i, looked->shape, peek); !fits)
        looked = tl::unexpected(std::move(fits.error()));
    }
    if (!looked) {
      if (!is_damage(looked.error())) return tl::unexpected(looked.error());
      if (damage == nullptr) {
        all.damaged.errors.push_back(looked.error());
        continue;
      }
      damage->add(i, looked.error());
      continue;
    }
    const SampleShape& shape = looked->shape;
    if (all.good++ == 0) type = input::type_of(Element::encoded, shape);
    type.height = {std::min(type.height.least, shape.height),
                   std::max(type.height.most, shape.height)};
    type.width = {std::min(type.width.least, shape.width), std::max(type.width.most, shape.width)};
    all.stored.bytes += looked->bytes;
    all.stored.decoded_bytes += shape.elements();
  }
  if (damage != nullptr) {
    if (auto bearable = damage->check(); !bearable) return tl::unexpected(bearable.error());
  }
  all.doubt = peek.doubt();
  all.damaged.looked_at = count;
  all.stored.items = source.size();
  if (!all.damaged.errors.empty()) return all;
  if (all.good == 0) {
    return fail(ErrorKind::corrupt,
                "none of the first " + format_count(count) + " files can be read", source.name(0));
  }
  type.is_complete = source.size() <= kMaxInspected;
  type.skips_damaged = damage != nullptr;
  const double share = static_cast<double>(source.size()) / static_cast<double>(all.good);
  for (std::int64_t* const sum : {&all.stored.bytes, &all.stored.decoded_bytes})
    *sum = static_cast<std::int64_t>(static_cast<double>(*sum) * share);
  return all;
}

class PictureDataset final : public Dataset {
 public:
  PictureDataset(std::unique_ptr<PictureSource> source, std::int64_t size, const LookedAt& all,
                 PictureLabels labels, std::unique_ptr<Damage> damage)
      : source_(std::move(source)),
        size_(size),
        type_(all.type),
        stored_(all.stored),
        doubt_(all.doubt),
        labels_(std::move(labels)),
        damage_(std::move(damage)) {}

  std::int64_t size() const override { return size_; }
  SampleType type() const override { return type_; }
  int classes() const override { return labels_.classes; }
  std::span<const std::string> class_names() const override { return labels_.names; }
  TargetType target() const override { return labels_.target; }
  void read_target(std::int64_t index, std::span<float> out) const override {
    const auto item = static_cast<std::size_t>(stored_index(index));
    const auto copy = [&](const auto& all) {
      std::ranges::copy(std::span(all).subspan(item * out.size(), out.size()), out.begin());
    };
    if (labels_.target.kind == TargetKind::tags) {
      copy(labels_.flags);
    } else {
      copy(labels_.values);
    }
  }
  std::int64_t label(std::int64_t index) const override {
    assert(index >= 0 && index < size_);
    if (!labels_.of_items.empty()) {
      return labels_.of_items[static_cast<std::size_t>(stored_index(index))];
    }
    if (!labels_.target.is_class()) return 0;
    const RandomStream random(labels_.seed, 0);
    return static_cast<std::int64_t>(below(random.at(static_cast<std::uint64_t>(index)),
                                           static_cast<std::uint64_t>(labels_.classes)));
  }
  Result<FileStamp> read_encoded(std::int64_t index,
                                 std::vector<std::uint8_t>& out) const override {
    return source_->read_front(stored_index(index), kMaxPictureBytes, out);
  }
  Result<SampleShape> read_mask(std::int64_t index, MaskRoom& room) const override {
    const MaskFiles& masks = *labels_.masks;
    const std::int64_t item = stored_index(index);
    auto shape = masks.read(item, room);
    if (!shape || item < kMaxInspected) return shape;
    PictureDecoder decoder;
    std::vector<std::uint8_t> bytes;
    const auto picture = look_at(*source_, item, decoder, bytes);
    if (!picture) return tl::unexpected(picture.error());
    if (auto fits = masks.check_size(item, *shape, picture->shape); !fits)
      return tl::unexpected(std::move(fits.error()));
    return shape;
  }
  void will_need(std::int64_t index) const override {
    source_->will_need(stored_index(index));
    if (labels_.masks != nullptr) labels_.masks->will_need(stored_index(index));
  }
  std::string doubt() const override { return doubt_; }
  std::int64_t stored_index(std::int64_t index) const override { return index % source_->size(); }
  Stored stored() const override { return stored_; }
  std::string name(std::int64_t index) const override { return source_->name(stored_index(index)); }
  Damage* damage() const override { return damage_.get(); }

 private:
  std::unique_ptr<PictureSource> source_;
  std::int64_t size_;
  SampleType type_;
  Stored stored_;
  std::string doubt_;
  PictureLabels labels_;
  std::unique_ptr<Damage> damage_;
};

// With the names of all others, those included whose headers are right.
Error told_with_all(const LookedAt& all, const Dataset& data, PictureFormats formats) {
  const Error& first = all.damaged.errors.front();
  if (all.good == 0) return with_others(first, all.damaged);
  const Transform decoder{formats == PictureFormats::jpeg ? "decode_jpeg" : "decode",
                          Json::object()};
  const int threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 64U));
  const DamageFound found =
      search_damage(data, decoder, threads, kMaxSearching, [] { return false; });
  return with_others(first, found.errors.size() >= all.damaged.errors.size() ? found : all.damaged);
}

Result<bool> skips_damaged(const Json& parameters) {
  const Json& rule = member(parameters, "on_error");
  if (rule.is_null() || rule == "stop") return false;
  if (rule == "skip") return true;
  return fail(ErrorKind::invalid, "`on_error` is not stop or skip", "data");
}

}  // namespace

Result<std::unique_ptr<Dataset>> open_pictures(const Json& parameters,
                                               std::unique_ptr<PictureSource> source,
                                               PictureLabels labels, PictureFormats formats) {
  if (source->size() > kMaxSamples) {
    return fail(ErrorKind::invalid, "there are too many files", "data");
  }
  const auto size = bounded_integer(parameters, "repeat_to", 1, kMaxSamples, source->size());
  if (!size) return tl::unexpected(size.error());
  const auto skips = skips_damaged(parameters);
  if (!skips) return tl::unexpected(skips.error());
  auto damage = *skips ? std::make_unique<Damage>(source->size()) : nullptr;
  const auto all = formats == PictureFormats::jpeg
                       ? look_at_all<JpegDecoder>(*source, labels.masks.get(), damage.get())
                       : look_at_all<PictureDecoder>(*source, labels.masks.get(), damage.get());
  if (!all) return tl::unexpected(all.error());
  auto data = std::make_unique<PictureDataset>(std::move(source), *size, *all, std::move(labels),
                                               std::move(damage));
  if (!all->damaged.errors.empty()) {
    return tl::unexpected(told_with_all(*all, *data, formats));
  }
  return data;
}

}  // namespace autotuned::input
