// SPDX-License-Identifier: Apache-2.0
// A JpegIndex on the disk. Written and read a piece at a time: an index of many files is large itself.
//
// A file: its header, the key, entries with their items before them, and the CRC-32 of all of it.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/descriptor.hpp"
#include "base/file.hpp"
#include "trainer/input/jpeg_index/jpeg_index.hpp"
#include "trainer/input/jpeg_index/jpeg_index_entry.hpp"
#include "trainer/input/jpeg_index/jpeg_index_folder.hpp"

namespace autotuned::input {
namespace {

constexpr std::string_view kMagic = "autotuned-jpeg-index-1\n";
struct FileHeader {
  std::uint64_t key_bytes = 0;
  std::uint64_t items = 0;  // of the data
  std::uint64_t entries = 0;
};
constexpr std::size_t kHeadBytes = kMagic.size() + sizeof(FileHeader);
constexpr std::size_t kPieceBytes = std::size_t{256} << 10U;

std::vector<std::uint8_t> head_of(const FileHeader& header) {
  std::vector<std::uint8_t> head(kHeadBytes);
  std::memcpy(head.data(), kMagic.data(), kMagic.size());
  std::memcpy(head.data() + kMagic.size(), &header, sizeof header);
  return head;
}

// Appends to a file. After an error, which errno says, nothing more is written.
class PieceWriter {
 public:
  explicit PieceWriter(int descriptor) : descriptor_(descriptor) { piece_.reserve(kPieceBytes); }

  void put(std::span<const std::uint8_t> bytes) {
    while (!bytes.empty()) {
      if (piece_.size() == kPieceBytes) flush();
      const auto some = bytes.first(std::min(bytes.size(), kPieceBytes - piece_.size()));
      piece_.insert(piece_.end(), some.begin(), some.end());
      bytes = bytes.subspan(some.size());
    }
  }
  template <class T>
  void put_value(const T& value) {
    put({reinterpret_cast<const std::uint8_t*>(&value), sizeof value});
  }
  void flush() {
    checksum_ = static_cast<std::uint32_t>(::crc32_z(checksum_, piece_.data(), piece_.size()));
    bytes_ += piece_.size();
    for (std::size_t done = 0; is_right_ && done < piece_.size();) {
      const ssize_t count = ::write(descriptor_, piece_.data() + done, piece_.size() - done);
      if (count >= 0) {
        done += static_cast<std::size_t>(count);
      } else if (errno != EINTR) {
        is_right_ = false;
        error_ = errno;
      }
    }
    piece_.clear();
  }

  // As of the last flush().
  [[nodiscard]] std::uint32_t checksum() const { return checksum_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] bool is_right() const { return is_right_; }
  [[nodiscard]] int error() const { return error_; }

 private:
  int descriptor_;
  std::vector<std::uint8_t> piece_;
  std::uint32_t checksum_ = 0;
  std::size_t bytes_ = 0;
  bool is_right_ = true;
  int error_ = 0;
};

// Takes from the front of a file, as far as `bytes`; false where there is no more.
class PieceReader {
 public:
  PieceReader(int descriptor, std::size_t bytes) : descriptor_(descriptor), left_(bytes) {
    piece_.resize(kPieceBytes);
  }

  [[nodiscard]] bool take(std::span<std::uint8_t> out) {
    if (out.size() > left_) return false;
    left_ -= out.size();
    while (!out.empty()) {
      if (at_ == end_ && !fill()) return false;
      const std::size_t count = std::min(out.size(), end_ - at_);
      std::memcpy(out.data(), piece_.data() + at_, count);
      checksum_ = static_cast<std::uint32_t>(::crc32_z(checksum_, out.data(), count));
      at_ += count;
      out = out.subspan(count);
    }
    return true;
  }
  template <class T>
  [[nodiscard]] bool take_value(T& value) {
    return take({reinterpret_cast<std::uint8_t*>(&value), sizeof value});
  }
  // All that is left.
  [[nodiscard]] bool pass_over() {
    std::vector<std::uint8_t> some(std::min(left_, kPieceBytes));
    while (left_ > 0) {
      if (!take(std::span(some).first(std::min(left_, some.size())))) return false;
    }
    return true;
  }
  [[nodiscard]] std::size_t left() const { return left_; }
  [[nodiscard]] std::uint32_t checksum() const { return checksum_; }

 private:
  bool fill() {
    ssize_t count = 0;
    do {
      count = ::pread(descriptor_, piece_.data(), piece_.size(), static_cast<off_t>(offset_));
    } while (count < 0 && errno == EINTR);
    if (count <= 0) return false;
    offset_ += static_cast<std::size_t>(count);
    at_ = 0;
    end_ = static_cast<std::size_t>(count);
    return true;
  }

  int descriptor_;
  std::size_t left_;
  std::vector<std::uint8_t> piece_;
  std::size_t at_ = 0;
  std::size_t end_ = 0;
  std::size_t offset_ = 0;
  std::uint32_t checksum_ = 0;
};

enum class Outcome { right, damaged, of_other_data };

// Calls `use` with every entry; the entry's memory is reused. The checksum is compared last: until then entries may be
// wrong.
template <class Use>
Outcome read_entries(int descriptor, std::size_t file_bytes, std::string_view key,
                     std::int64_t items, Use use) {
  std::uint32_t expected = 0;
  if (file_bytes < kHeadBytes + sizeof expected) return Outcome::damaged;
  PieceReader reader(descriptor, file_bytes - sizeof expected);
  std::vector<std::uint8_t> part(kMagic.size());
  FileHeader header;
  if (!reader.take(part) || std::memcmp(part.data(), kMagic.data(), kMagic.size()) != 0)
    return Outcome::damaged;
  if (!reader.take_value(header)) return Outcome::damaged;
  bool is_same = header.key_bytes == key.size() && std::cmp_equal(header.items, items);
  if (is_same) {
    part.resize(key.size());
    if (!reader.take(part)) return Outcome::damaged;
    is_same = std::equal(part.begin(), part.end(), key.begin(), [](std::uint8_t one, char other) {
      return one == static_cast<std::uint8_t>(other);
    });
  }
  for (std::uint64_t i = 0; is_same && i < header.entries; ++i) {
    std::int64_t item = 0;
    EntryHeader entry;
    if (!reader.take_value(item) || item < 0 || item >= items) return Outcome::damaged;
    if (!reader.take_value(entry)) return Outcome::damaged;
    const std::uint64_t points = sizeof(JpegPoint) * std::uint64_t{entry.points};
    if (points > reader.left()) return Outcome::damaged;
    part.resize(sizeof entry + points);
    std::memcpy(part.data(), &entry, sizeof entry);
    if (!reader.take(std::span(part).subspan(sizeof entry))) return Outcome::damaged;
    use(item, std::span<const std::uint8_t>(part));
  }
  if (is_same && reader.left() > 0) return Outcome::damaged;
  if (!reader.pass_over()) return Outcome::damaged;
  const auto at = static_cast<off_t>(file_bytes - sizeof expected);
  if (::pread(descriptor, &expected, sizeof expected, at) != ssize_t{sizeof expected})
    return Outcome::damaged;
  if (expected != reader.checksum()) return Outcome::damaged;
  return is_same ? Outcome::right : Outcome::of_other_data;
}

Result<Descriptor> open_index(const std::filesystem::path& file, std::size_t& bytes) {
  Descriptor opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!opened.is_open() || ::fstat(opened.get(), &status) != 0) {
    return tl::unexpected(system_error(errno, "cannot open the index", file.string()));
  }
  if (!S_ISREG(status.st_mode)) {
    return fail(ErrorKind::invalid, "the index is not a regular file", file.string(), "remove it");
  }
  bytes = static_cast<std::size_t>(status.st_size);
  return opened;
}

tl::unexpected<Error> no_memory(const std::filesystem::path& file) {
  return fail(ErrorKind::out_of_memory, "no memory to read or write the index", file.string());
}

// Removes a file that was not published.
class Unpublished {
 public:
  explicit Unpublished(std::string name) : name_(std::move(name)) {}
  ~Unpublished() {
    if (!name_.empty()) ::unlink(name_.c_str());
  }
  Unpublished(const Unpublished&) = delete;
  Unpublished& operator=(const Unpublished&) = delete;
  void keep() { name_.clear(); }

 private:
  std::string name_;
};

}  // namespace

Result<void> JpegIndex::load(const std::filesystem::path& file, std::string_view key) {
  try {
    std::size_t bytes = 0;
    const auto opened = open_index(file, bytes);
    if (!opened) return tl::unexpected(opened.error());
    // Twice: nothing is taken from a file before all of it is known to be right.
    std::vector<std::int64_t> taken;
    for (const bool takes : {false, true}) {
      const Outcome outcome =
          read_entries(opened->get(), bytes, key, items_,
                       [&](std::int64_t item, std::span<const std::uint8_t> entry) {
                         if (!takes) return;
                         taken.push_back(item);
                         put(item, entry, false);
                       });
      if (outcome == Outcome::of_other_data) {
        return fail(ErrorKind::not_found, "the index belongs to other data", file.string());
      }
      if (outcome == Outcome::damaged) {
        for (const std::int64_t item : taken)
          drop(item);
        return fail(ErrorKind::corrupt, "the index is damaged", file.string(), "remove it");
      }
    }
    has_news_.store(false, std::memory_order_relaxed);
    return {};
  } catch (const std::bad_alloc&) {
    return no_memory(file);
  }
}

Result<void> JpegIndex::save(const std::filesystem::path& file, std::string_view key) {
  has_news_.store(false, std::memory_order_relaxed);  // what is kept from here on may be missed
  auto written = [&]() -> Result<void> {
    try {
      return write(file, key);
    } catch (const std::bad_alloc&) {
      return no_memory(file);
    }
  }();
  if (!written) has_news_.store(true, std::memory_order_relaxed);
  return written;
}

Result<void> JpegIndex::write(const std::filesystem::path& file, std::string_view key) const {
  const auto failed = [&](int number) {
    Error error = system_error(number, "cannot write the index", file.string());
    error.remedy = "free disk space there, or set XDG_CACHE_HOME to another folder";
    return tl::unexpected(std::move(error));
  };
  std::string name = (file.parent_path() / kUnpublishedIndex).string() + "XXXXXX";
  const Descriptor output(::mkostemp(name.data(), O_CLOEXEC));
  if (!output.is_open()) return failed(errno);
  Unpublished temporary(name);
  // How many entries there are is known behind them, as others keep more meanwhile.
  FileHeader header{.key_bytes = key.size(), .items = static_cast<std::uint64_t>(items_)};
  if (::lseek(output.get(), static_cast<off_t>(kHeadBytes), SEEK_SET) < 0) return failed(errno);
  PieceWriter writer(output.get());
  writer.put({reinterpret_cast<const std::uint8_t*>(key.data()), key.size()});
  std::vector<std::uint8_t> none;
  for (std::int64_t item = 0; item < items_ && writer.is_right(); ++item) {
    const auto entry = entries_->find(item, none);
    if (!entry) continue;
    writer.put_value(item);
    writer.put(entry->bytes);
    ++header.entries;
  }
  writer.flush();
  const auto head = head_of(header);
  const uLong checksum =
      ::crc32_combine(checksum_of(head), writer.checksum(), static_cast<z_off_t>(writer.bytes()));
  writer.put_value(static_cast<std::uint32_t>(checksum));
  writer.flush();
  if (!writer.is_right()) return failed(writer.error());
  if (::pwrite(output.get(), head.data(), head.size(), 0) != std::ssize(head)) return failed(errno);
  auto published = publish_file(name, file);
  if (published) temporary.keep();
  return published;
}

}  // namespace autotuned::input
