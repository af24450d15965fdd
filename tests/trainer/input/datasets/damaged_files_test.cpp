// SPDX-License-Identifier: Apache-2.0
// Pictures from folders, tables and tar files, some of them damaged: whatever reads them and in whatever
// form, the same samples come, and the same ones stand in for those that cannot be read.
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "tests/base/temporary_folder.hpp"
#include "tests/golden.hpp"
#include "tests/trainer/input/datasets/pictures/tar_fixture.hpp"
#include "tests/trainer/input/fixtures.hpp"
#include "trainer/input/common/random.hpp"
#include "trainer/input/common/sample_cache.hpp"
#include "trainer/input/datasets/damage_search.hpp"
#include "trainer/input/decode/picture_decoder.hpp"
#include "trainer/input/jpeg_index/jpeg_index.hpp"
#include "trainer/input/loader/loader.hpp"

namespace autotuned::input {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

struct File {
  std::string content;
  int label = 0;
  bool is_png = false;
};

std::string content_of(const std::string& name) {
  const auto bytes = bytes_of_file(fixture_path(name));
  return {bytes.begin(), bytes.end()};
}

// So many, with labels in turn.
std::vector<File> good_files(int count) {
  static const std::vector<std::string> kNames = {
      "420_37x51.jpg",   "png_rgb.png",        "progressive_37x51.jpg", "422_37x51.jpg",
      "png_palette.png", "restarts_37x51.jpg", "png_interlaced.png",    "444_37x51.jpg",
      "grey_37x51.jpg",  "png_grey_alpha.png"};
  std::vector<File> files;
  for (int i = 0; i < count; ++i) {
    const std::string& name = kNames[static_cast<std::size_t>(i) % kNames.size()];
    files.push_back({content_of(name), i % 5, name.ends_with(".png")});
  }
  return files;
}

// What is left when the middle of the picture is lost.
std::string cut(const std::string& content) {
  return content.substr(0, content.size() * 6 / 10);
}

class DamagedFiles : public testing::Test {
 protected:
  // The same files in a table and in a tar file.
  [[nodiscard]] Result<std::unique_ptr<Dataset>> open_table(const std::vector<File>& files,
                                                            const std::string& on_error) const {
    const std::string name = "table" + std::to_string(++opened_);
    std::string table;
    for (std::size_t i = 0; i < files.size(); ++i) {
      const std::string file = name + "/" + std::to_string(i);
      folder_.write(file, files[i].content);
      table += file + "," + std::to_string(files[i].label) + "\n";
    }
    const auto index = folder_.write(name + ".csv", table).string();
    return open_dataset("image_index", {{"index", index}, {"classes", 5}, {"on_error", on_error}});
  }
  [[nodiscard]] Result<std::unique_ptr<Dataset>> open_tar(const std::vector<File>& files,
                                                          const std::string& on_error) const {
    std::string content;
    for (std::size_t i = 0; i < files.size(); ++i) {
      const std::string key = std::to_string(i);
      content += tar_member(key + (files[i].is_png ? ".png" : ".jpg"), files[i].content) +
                 tar_member(key + ".cls", std::to_string(files[i].label));
    }
    const auto shard =
        folder_.write("shard" + std::to_string(++opened_) + ".tar", content + tar_end());
    return open_dataset("tar", {{"files", shard.string()}, {"classes", 5}, {"on_error", on_error}});
  }

  TemporaryFolder folder_;
  mutable int opened_ = 0;
};

struct Loaded {
  std::vector<float> images;
  std::vector<std::int64_t> labels;
  std::string error;

  friend bool operator==(const Loaded&, const Loaded&) = default;
};

const std::vector<Transform> kCropped = {
    {"decode"}, {"to_float"}, {"random_crop", {{"size", {11, 13}}}}, {"rgb_to_yuv"}};
// As recipes/photo_augment.yaml.
const std::vector<Transform> kAugmented = {
    {"decode"},
    {"random_resized_crop", {{"size", 12}}},
    {"random_flip"},
    {"color_jitter", {{"brightness", 0.4}, {"contrast", 0.4}, {"saturation", 0.4}, {"hue", 0.1}}},
    {"to_float"},
    {"normalize", {{"mean", {0.485, 0.456, 0.406}}, {"std", {0.229, 0.224, 0.225}}}}};

// Two epochs and a bit.
Loaded load(const Dataset& data, const std::vector<Transform>& transforms, PipelineForm form,
            int workers) {
  Loaded loaded;
  const auto pipeline = Pipeline::compile(data.type(), transforms, 3, form);
  EXPECT_TRUE(pipeline) << (pipeline ? "" : pipeline.error().message());
  if (!pipeline) return loaded;
  constexpr std::int64_t kBatch = 4;
  const auto elements = static_cast<std::size_t>(pipeline->shape().elements());
  std::vector<std::vector<float>> images(4, std::vector<float>(kBatch * elements));
  std::vector<std::vector<std::int64_t>> labels(images.size(), std::vector<std::int64_t>(kBatch));
  LoaderSettings settings{.workers = workers, .batch_size = kBatch, .drop_last = false};
  for (std::size_t i = 0; i < images.size(); ++i)
    settings.ring.push_back({images[i].data(), labels[i].data()});
  auto cache = SampleCache::create(data.stored().items, 1 << 22);
  if (pipeline->is_cached()) settings.kept.cache = cache->get();
  auto index = JpegIndex::create(data.stored().items, 1 << 22);
  if (pipeline->is_indexed()) settings.kept.index = index->get();
  auto loader = Loader::create(data, {.seed = 9}, *pipeline, settings);
  EXPECT_TRUE(loader) << (loader ? "" : loader.error().message());
  if (!loader) return loaded;
  (*loader)->resume();
  const std::int64_t wanted = 2 * data.size() + 3;
  while (std::ssize(loaded.labels) < wanted) {
    const auto batch = (*loader)->next();
    if (!batch) {
      loaded.error = batch.error().message();
      break;
    }
    const auto slot = static_cast<std::size_t>(batch->slot);
    const auto count = static_cast<std::ptrdiff_t>(batch->samples);
    loaded.labels.insert(loaded.labels.end(), labels[slot].begin(), labels[slot].begin() + count);
    loaded.images.insert(loaded.images.end(), images[slot].begin(),
                         images[slot].begin() + count * static_cast<std::ptrdiff_t>(elements));
    (*loader)->release(batch->slot);
  }
  return loaded;
}

std::vector<PipelineForm> some_forms() {
  std::vector<PipelineForm> forms;
  for (const bool decodes_crop : {false, true}) {
    for (const CacheKind cache :
         {CacheKind::none, CacheKind::raw, CacheKind::decoded, CacheKind::prefix}) {
      forms.push_back({false, decodes_crop, PointOps::per_sample, cache});
      forms.push_back({true, decodes_crop, PointOps::fused, cache});
      forms.push_back({true, decodes_crop, PointOps::per_batch, cache});
    }
  }
  forms.push_back({.decodes_crop = true, .indexes_jpegs = true});
  forms.push_back({.decodes_crop = true, .cache = CacheKind::raw, .indexes_jpegs = true});
  return forms;
}

std::vector<std::string> noted_files(const Dataset& data) {
  std::vector<std::string> names;
  for (const Error& error : data.damage()->found(0))
    names.push_back(error.where);
  std::ranges::sort(names);
  return names;
}

TEST_F(DamagedFiles, OthersStandInForThem) {
  std::vector<File> files = good_files(14);
  // As if the next good one stood there.
  std::vector<File> replaced = files;
  for (const std::size_t i : {2U, 6U, 7U, 13U})
    files[i].content = cut(files[i].content);
  files[11].content = "no picture";
  replaced[2] = replaced[3];
  replaced[6] = replaced[7] = replaced[8];
  replaced[11] = replaced[12];
  replaced[13] = replaced[0];
  const auto oracle = open_table(replaced, "stop");
  ASSERT_TRUE(oracle) << oracle.error().message();
  EXPECT_EQ((*oracle)->damage(), nullptr);
  for (const auto& transforms : {kCropped, kAugmented}) {
    const Loaded expected = load(**oracle, transforms, {}, 0);
    ASSERT_EQ(expected.labels.size(), 2 * 14U + 4);
    for (const PipelineForm& form : some_forms()) {
      for (const int workers : {0, 3}) {
        SCOPED_TRACE(testing::Message()
                     << transforms.size() << " " << form.crops_first << form.decodes_crop
                     << static_cast<int>(form.cache) << " workers " << workers);
        for (const auto& data : {open_table(files, "skip"), open_tar(files, "skip")}) {
          ASSERT_TRUE(data) << data.error().message();
          EXPECT_TRUE((*data)->type().skips_damaged);
          const Loaded loaded = load(**data, transforms, form, workers);
          EXPECT_TRUE(loaded == expected) << loaded.error;
          EXPECT_EQ((*data)->damage()->count(), 5);
          EXPECT_EQ(noted_files(**data).size(), 5U);
        }
      }
    }
  }
}

TEST_F(DamagedFiles, EndTheJobUnlessTheRecipeSkipsThem) {
  std::vector<File> files = good_files(6);
  files[4].content = cut(files[4].content);
  for (const char* rule : {"stop", "skip"}) {
    const auto table = open_table(files, rule);
    ASSERT_TRUE(table) << table.error().message();
    const Loaded loaded = load(**table, kCropped, {}, 2);
    if (rule == std::string("skip")) {
      EXPECT_EQ(loaded.error, "");
      EXPECT_THAT(noted_files(**table), ElementsAre(testing::EndsWith("/4")));
    } else {
      EXPECT_THAT(loaded.error, HasSubstr("/4: "));
    }
  }
  files[0].content = "no picture";
  EXPECT_THAT(open_table(files, "stop").error().message(),
              HasSubstr("/0: is neither a JPEG nor a PNG file"));
  const auto tar = open_tar(files, "skip");
  ASSERT_TRUE(tar);
  EXPECT_THAT(noted_files(**tar), ElementsAre(HasSubstr(".tar, 0.jpg")));
  EXPECT_THAT(open_table(files, "go on").error().message(), HasSubstr("`on_error`"));
}

// All at once, not one in every run.
TEST_F(DamagedFiles, AreNamedTogetherWhenOneEndsTheJob) {
  std::vector<File> files = good_files(40);
  // Seen when the data are opened.
  for (const std::size_t i : {3U, 17U, 31U})
    files[i].content = "no picture";
  const auto three = open_table(files, "stop");
  ASSERT_FALSE(three);
  EXPECT_THAT(three.error().where, EndsWith("/3"));
  tests::Cases cases(folder_.path());
  cases.add("files that are no pictures", three.error().message());

  // Those whose headers are right are named with them.
  files[5].content.clear();
  files[9].content = cut(files[9].content);
  files[3] = good_files(40)[3];
  const auto mixed = open_table(files, "stop");
  ASSERT_FALSE(mixed);
  cases.add("with one that is empty and one that is cut", mixed.error().message());
  tests::expect_golden("trainer/input/datasets/golden/damaged_files.txt", cases.text());

  // Seen only when they are decoded.
  files = good_files(40);
  for (std::size_t i = 1; i < 40; i += 3)
    files[i].content = cut(files[i].content);
  const auto table = open_table(files, "stop");
  ASSERT_TRUE(table) << table.error().message();
  for (const int threads : {1, 3}) {
    const DamageFound found =
        search_damage(**table, {"decode"}, threads, std::chrono::hours(1), [] { return false; });
    EXPECT_EQ(found.looked_at, 40);
    ASSERT_EQ(found.errors.size(), 13U);
    for (std::size_t i = 0; i < found.errors.size(); ++i)
      EXPECT_THAT(found.errors[i].where, EndsWith("/" + std::to_string(1 + 3 * i)));
    const Error told = with_others(found.errors[4], found);
    EXPECT_EQ(told.where, found.errors[4].where);
    EXPECT_THAT(told.what, HasSubstr("; 12 more of 40 files cannot be read: "));
    EXPECT_THAT(told.what, EndsWith("/37"));
  }
  int asked = 0;
  const DamageFound few =
      search_damage(**table, {"decode"}, 1, std::chrono::hours(1), [&] { return ++asked == 5; });
  EXPECT_EQ(few.looked_at, 5);
  EXPECT_EQ(few.errors.size(), 2U);
  EXPECT_EQ(
      search_damage(**table, {"resize"}, 1, std::chrono::hours(1), [] { return false; }).looked_at,
      0);
}

TEST(Damage, NamesTwentyOfMany) {
  DamageFound found{.errors = {}, .looked_at = 1000};
  for (int i = 0; i < 25; ++i)
    found.errors.push_back({ErrorKind::corrupt, "is odd", "file" + std::to_string(i), ""});
  const Error told = with_others(found.errors[0], found);
  EXPECT_THAT(told.what, AllOf(testing::StartsWith("is odd; 24 more of 1,000 files"),
                               EndsWith("file19, file20 and 4 others")));
  found.errors.resize(1);
  EXPECT_EQ(with_others(found.errors[0], found).message(), "file0: is odd");
}

// A file that is gone is as good as damaged; an unreadable disk is not.
TEST_F(DamagedFiles, AreThoseThatStayUnreadable) {
  EXPECT_TRUE(is_damage({ErrorKind::corrupt, "", "", ""}));
  EXPECT_TRUE(is_damage({ErrorKind::unsupported, "", "", ""}));
  EXPECT_TRUE(is_damage({ErrorKind::not_found, "", "", ""}));
  EXPECT_FALSE(is_damage({ErrorKind::io, "", "", ""}));
  EXPECT_FALSE(is_damage({ErrorKind::out_of_memory, "", "", ""}));
  // The recipe's mistake: a crop larger than a picture.
  EXPECT_FALSE(is_damage({ErrorKind::invalid, "", "", ""}));
  const auto table = open_table(good_files(5), "skip");
  ASSERT_TRUE(table);
  std::filesystem::remove(folder_ / "table1/3");
  EXPECT_EQ(load(**table, kCropped, {}, 1).error, "");
  EXPECT_EQ((*table)->damage()->count(), 1);
}

TEST_F(DamagedFiles, AreTooManyAtSomePoint) {
  // Ten may be damaged, however few files there are.
  std::vector<File> files = good_files(12);
  for (std::size_t i = 0; i < 10; ++i)
    files[i].content = cut(files[i].content);
  const auto ten = open_table(files, "skip");
  ASSERT_TRUE(ten);
  EXPECT_EQ(load(**ten, kCropped, {}, 2).error, "");
  files[10].content = cut(files[10].content);
  const auto eleven = open_table(files, "skip");
  ASSERT_TRUE(eleven);
  EXPECT_THAT(load(**eleven, kCropped, {}, 2).error,
              AllOf(HasSubstr("11 of 12 files cannot be read"), HasSubstr("the first one: "),
                    HasSubstr("repair the files")));
  // None is left.
  files = good_files(3);
  for (File& file : files)
    file.content = cut(file.content);
  const auto none = open_table(files, "skip");
  ASSERT_TRUE(none);
  EXPECT_THAT(load(**none, kCropped, {}, 0).error, HasSubstr("3 of 3 files cannot be read"));
  // Seen before training.
  for (File& file : files)
    file.content = "no picture";
  EXPECT_THAT(open_table(files, "skip").error().message(),
              HasSubstr("3 of 3 files cannot be read"));
}

TEST(Damage, AllowsOnePercentOfMany) {
  Damage damage(2000);
  const Error error{ErrorKind::corrupt, "is odd", "first", ""};
  for (std::int64_t i = 0; i < 20; ++i) {
    EXPECT_TRUE(damage.note(i, error));
    EXPECT_TRUE(damage.note(i, error));  // counts once
  }
  EXPECT_EQ(damage.count(), 20);
  EXPECT_EQ(damage.found(18).size(), 2U);
  EXPECT_EQ(damage.found(21).size(), 0U);
  const auto over = damage.note(77, error);
  ASSERT_FALSE(over);
  EXPECT_EQ(
      over.error().message(),
      "first: 21 of 2,000 files cannot be read, which are too many to skip; the first one: "
      "is odd; others: first, first, first and 17 more; repair the files, or remove them from "
      "the recipe's data");
}

bool is_readable(const std::string& content) {
  PictureDecoder decoder;
  const std::vector<std::uint8_t> bytes(content.begin(), content.end());
  const auto shape = decoder.begin(bytes);
  if (!shape) return false;
  std::vector<std::uint8_t> picture(static_cast<std::size_t>(shape->elements()));
  return decoder.decode(picture.data()).has_value();
}

// Damage that leaves the size of the picture as it is, or none.
std::string damaged(const std::string& content, RandomStream random, std::uint64_t& drawn) {
  const auto shape_of = [](const std::string& text) {
    PictureDecoder decoder;
    const std::vector<std::uint8_t> bytes(text.begin(), text.end());
    return decoder.begin(bytes).value_or(SampleShape{0, 0, 0});
  };
  const SampleShape before = shape_of(content);
  while (true) {
    std::string changed = content;
    const std::uint64_t at = below(random.at(drawn++), content.size());
    if (below(random.at(drawn++), 4) == 0) {
      changed.resize(at);
    } else {
      changed[at] = static_cast<char>(random.at(drawn++));
    }
    const SampleShape after = shape_of(changed);
    if (after == before || after.channels == 0) return changed;
  }
}

// Whatever the damage: seen or not, it makes no difference between the forms.
TEST_F(DamagedFiles, AreTheSameInEveryForm) {
  int unreadable = 0;
  int readable = 0;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE(seed);
    const RandomStream random(seed, 0);
    std::uint64_t drawn = 0;
    std::vector<File> files = good_files(20);
    for (int i = 0; i < 10; ++i) {
      File& file = files[below(random.at(drawn++), files.size())];
      file.content = damaged(file.content, random, drawn);
      ++(is_readable(file.content) ? readable : unreadable);
    }
    std::vector<File> replaced = files;
    for (std::size_t i = 0; i < files.size(); ++i) {
      std::size_t stand_in = i;
      while (!is_readable(files[stand_in].content))
        stand_in = (stand_in + 1) % files.size();
      replaced[i] = files[stand_in];
    }
    const auto oracle = open_table(replaced, "stop");
    ASSERT_TRUE(oracle) << oracle.error().message();
    const auto& transforms = seed % 2 == 0 ? kCropped : kAugmented;
    const Loaded expected = load(**oracle, transforms, {}, 0);
    ASSERT_EQ(expected.error, "");
    std::set<std::vector<std::string>> noted;
    for (const PipelineForm& form : some_forms()) {
      const auto data = form.crops_first ? open_tar(files, "skip") : open_table(files, "skip");
      ASSERT_TRUE(data) << data.error().message();
      const Loaded loaded = load(**data, transforms, form, form.crops_first ? 2 : 0);
      EXPECT_TRUE(loaded == expected)
          << form.crops_first << form.decodes_crop << static_cast<int>(form.point_ops)
          << static_cast<int>(form.cache) << " " << loaded.error;
      std::vector<std::string> names = noted_files(**data);
      for (std::string& name : names)
        name = std::filesystem::path(name).filename().stem().string();
      if (!form.crops_first) noted.insert(names);
    }
    EXPECT_EQ(noted.size(), 1U);
  }
  EXPECT_GT(unreadable, 20);
  EXPECT_GT(readable, 5);
}

}  // namespace
}  // namespace autotuned::input
