// SPDX-License-Identifier: Apache-2.0
// CIFAR-10 in its binary form: records of one label and 3 x 32 x 32 bytes, one after the other.
#include <cassert>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <new>
#include <utility>

#include "base/byte_stream.hpp"
#include "base/text.hpp"
#include "trainer/input/datasets/dataset_types.hpp"

namespace autotuned::input {
namespace {

constexpr SampleShape kShape{3, 32, 32};
constexpr std::size_t kImageBytes = 3 * 32 * 32;
constexpr std::size_t kRecordBytes = 1 + kImageBytes;
constexpr int kClasses = 10;

class Cifar10Dataset final : public Dataset {
 public:
  Cifar10Dataset(std::vector<std::uint8_t> records, std::int64_t size)
      : records_(std::move(records)), size_(size) {}

  std::int64_t size() const override { return size_; }
  SampleType type() const override { return type_of(Element::uint8, kShape); }
  int classes() const override { return kClasses; }
  std::int64_t label(std::int64_t index) const override { return *record(index); }
  Result<void> read(std::int64_t index, std::span<std::uint8_t> out) const override {
    assert(out.size() == kImageBytes);
    std::memcpy(out.data(), record(index) + 1, kImageBytes);
    return {};
  }
  std::span<const std::uint8_t> view(std::int64_t index) const override {
    return {record(index) + 1, kImageBytes};
  }

 private:
  const std::uint8_t* record(std::int64_t index) const {
    assert(index >= 0 && index < size_);
    return records_.data() + static_cast<std::size_t>(index) * kRecordBytes;
  }

  std::vector<std::uint8_t> records_;
  std::int64_t size_;
};

// Appends the records of a file.
Result<void> append_file(const std::string& file, std::vector<std::uint8_t>& records) {
  auto stream = ByteStream::open(file);
  if (!stream) return tl::unexpected(stream.error());
  std::error_code error;
  const auto bytes = static_cast<std::size_t>(std::filesystem::file_size(file, error));
  if (error) return tl::unexpected(system_error(error.value(), "cannot read its size", file));
  if (bytes == 0 || bytes % kRecordBytes != 0) {
    return fail(ErrorKind::corrupt,
                "has " + format_count(static_cast<std::int64_t>(bytes)) +
                    " bytes, which is not a multiple of the record size " +
                    std::to_string(kRecordBytes),
                file, "give files of the binary version of CIFAR-10, unpacked and whole");
  }
  const std::size_t before = records.size();
  records.resize(before + bytes);
  auto outcome = stream->read(std::span(records).subspan(before));
  if (outcome.cut_short) return tl::unexpected(*outcome.cut_short);
  for (std::size_t at = before; at < records.size(); at += kRecordBytes) {
    if (records[at] < kClasses) continue;
    return fail(ErrorKind::corrupt,
                "the label of record " + std::to_string((at - before) / kRecordBytes) + " is " +
                    std::to_string(records[at]) + ", but there are 10 classes",
                file, "give files of the binary version of CIFAR-10 (not CIFAR-100)");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Dataset>> open_cifar10(const Json& parameters) {
  auto files = file_list(parameters, "files");
  if (!files) {
    if (files.error().kind == ErrorKind::not_found) {
      files.error().remedy +=
          ", or use data of type synthetic with shape [3, 32, 32] and 10 classes";
    }
    return tl::unexpected(files.error());
  }
  std::vector<std::uint8_t> records;
  try {
    for (const std::string& file : *files) {
      auto appended = append_file(file, records);
      if (!appended) return tl::unexpected(appended.error());
    }
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::out_of_memory, "no memory for the records", "data", "give fewer files");
  }
  const auto count = static_cast<std::int64_t>(records.size() / kRecordBytes);
  return std::make_unique<Cifar10Dataset>(std::move(records), count);
}

}  // namespace autotuned::input
