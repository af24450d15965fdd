// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/common/sample_cache.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <utility>

#include "base/text.hpp"

namespace autotuned::input {
namespace {

// Any other value is a place: the lower bits are the number of lines of the sample, the upper ones the line where it
// begins, which is never 0.
constexpr std::uint64_t kEmpty = 0;
constexpr std::uint64_t kTaken = 1;  // somebody copies it just now, or there is no room
constexpr std::size_t kCacheLineBytes = 64;
// The most bytes of a sample that are prefetched: the hardware fetches the rest by itself.
constexpr std::size_t kMaxPrefetchedBytes = 4096;
constexpr unsigned kLengthBits = 24;
constexpr std::uint64_t kMaxLines = (std::uint64_t{1} << kLengthBits) - 1;

// Stands before the bytes of a sample.
struct alignas(kCacheLineBytes) Header {
  Element element = Element::uint8;
  SampleShape shape;
  std::size_t bytes = 0;
  FileStamp stamp;
};

std::size_t rounded_up(std::size_t bytes) {
  return (bytes + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes;
}

std::size_t begin_of(std::uint64_t place) {
  return static_cast<std::size_t>(place >> kLengthBits) * kCacheLineBytes;
}

std::size_t length_of(std::uint64_t place) {
  return static_cast<std::size_t>(place & kMaxLines) * kCacheLineBytes;
}

// Where the file system knows no files without a name: one that loses it at once.
Result<Descriptor> nameless_file(const std::filesystem::path& folder) {
  constexpr int kFlags = O_RDWR | O_CLOEXEC;
  Descriptor file(::open(folder.c_str(), kFlags | O_TMPFILE, 0600));
  if (!file.is_open() && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT)) {
    std::string name = (folder / ".autotuned-cache-XXXXXX").string();
    file.reset(::mkostemp(name.data(), O_CLOEXEC));
    if (file.is_open()) ::unlink(name.c_str());
  }
  if (file.is_open()) return file;
  return tl::unexpected(
      system_error(errno, "cannot create the file of input.cache", folder.string()));
}

tl::unexpected<Error> no_memory() {
  return fail(ErrorKind::out_of_memory, "no memory for the positions of samples", "input.cache",
              "set input.cache to none");
}

}  // namespace

// The first line stays unused: no sample has a place that means something else.
SampleCache::SampleCache(std::int64_t items, std::int64_t most_bytes)
    : items_(items),
      places_(new Place[static_cast<std::size_t>(items)]()),
      size_(kCacheLineBytes +
            static_cast<std::size_t>(std::max<std::int64_t>(
                most_bytes - items * static_cast<std::int64_t>(sizeof(Place)), 0))),
      used_(kCacheLineBytes) {}

SampleCache::~SampleCache() {
  if (memory_ != nullptr) ::munmap(memory_, size_);
}

Result<std::unique_ptr<SampleCache>> SampleCache::create(std::int64_t items,
                                                         std::int64_t most_bytes) {
  assert(items >= 1 && most_bytes >= 0);
  try {
    std::unique_ptr<SampleCache> cache(new SampleCache(items, most_bytes));
    void* const memory = ::mmap(nullptr, cache->size_, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      return fail(ErrorKind::out_of_memory,
                  "no address space for " + format_bytes(most_bytes) + " of samples", "input.cache",
                  "lower tune.cache_memory");
    }
    cache->memory_ = static_cast<std::uint8_t*>(memory);
    return cache;
  } catch (const std::bad_alloc&) {
    return no_memory();
  }
}

Result<std::unique_ptr<SampleCache>> SampleCache::create_in_file(
    std::int64_t items, std::int64_t most_bytes, const std::filesystem::path& folder) {
  assert(items >= 1 && most_bytes >= 0);
  auto file = nameless_file(folder);
  if (!file) return tl::unexpected(std::move(file.error()));
  try {
    std::unique_ptr<SampleCache> cache(new SampleCache(items, most_bytes));
    cache->file_ = std::move(*file);
    // Beyond that, writing is not an error but a signal.
    rlimit limit{};
    if (::getrlimit(RLIMIT_FSIZE, &limit) == 0)
      cache->size_ = std::max(std::min(cache->size_, std::size_t{limit.rlim_cur}), kCacheLineBytes);
    return cache;
  } catch (const std::bad_alloc&) {
    return no_memory();
  }
}

std::optional<Sample> SampleCache::find(std::int64_t item, std::vector<std::uint8_t>& room) const {
  assert(item >= 0 && item < items_);
  const std::uint64_t place =
      places_[static_cast<std::size_t>(item)].load(std::memory_order_acquire);
  if (place <= kTaken) return std::nullopt;
  if (is_in_file()) return read(place, room);
  const std::uint8_t* const at = memory_ + begin_of(place);
  const auto* const header = reinterpret_cast<const Header*>(at);
  return Sample{
      header->element, header->shape, {at + sizeof(Header), header->bytes}, {header->stamp}};
}

void SampleCache::forget(std::int64_t item) {
  assert(item >= 0 && item < items_);
  Place& place = places_[static_cast<std::size_t>(item)];
  std::uint64_t kept = place.load(std::memory_order_relaxed);
  // A thread that is reading it can go on: the bytes stay.
  if (kept > kTaken && place.compare_exchange_strong(kept, kEmpty)) {
    kept_items_.fetch_sub(1, std::memory_order_relaxed);
    forgotten_.fetch_add(static_cast<std::int64_t>(length_of(kept)), std::memory_order_relaxed);
  }
}

void SampleCache::compact() {
  assert(!is_in_file());
  const std::span<Place> places(places_.get(), static_cast<std::size_t>(items_));
  std::vector<Place*> kept;
  try {
    kept.reserve(static_cast<std::size_t>(kept_items_.load()));
  } catch (const std::bad_alloc&) {
    return;
  }
  for (Place& place : places) {
    if (place.load() > kTaken) {
      kept.push_back(&place);
    } else {
      place.store(kEmpty);
    }
  }
  // Downwards one by one, so that none is written over before it was moved.
  std::ranges::sort(kept, {}, [](const Place* place) { return place->load(); });
  std::size_t end = kCacheLineBytes;
  for (Place* const place : kept) {
    const std::uint64_t from = place->load();
    std::memmove(memory_ + end, memory_ + begin_of(from), length_of(from));
    place->store(end / kCacheLineBytes << kLengthBits | (from & kMaxLines));
    end += length_of(from);
  }
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t unused = (end + page - 1) / page * page;
  const std::size_t was_used = used_.exchange(end);
  if (unused < was_used) (void)::madvise(memory_ + unused, was_used - unused, MADV_DONTNEED);
  forgotten_ = 0;
}

std::optional<Sample> SampleCache::read(std::uint64_t place,
                                        std::vector<std::uint8_t>& room) const {
  const std::size_t most = length_of(place);
  if (room.size() < most) room.resize(most);
  std::size_t done = 0;
  // The last one's last line may be short.
  while (done < most) {
    const ssize_t count = ::pread(file_.get(), room.data() + done, most - done,
                                  static_cast<off_t>(begin_of(place) + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += static_cast<std::size_t>(count);
  }
  Header header;
  if (done < sizeof(header)) return std::nullopt;
  std::memcpy(&header, room.data(), sizeof(header));
  if (done - sizeof(header) < header.bytes) return std::nullopt;
  return Sample{
      header.element, header.shape, {room.data() + sizeof(header), header.bytes}, {header.stamp}};
}

bool SampleCache::has(std::int64_t item) const {
  assert(item >= 0 && item < items_);
  return places_[static_cast<std::size_t>(item)].load(std::memory_order_relaxed) > kTaken;
}

bool SampleCache::is_wanted(std::int64_t item) const {
  assert(item >= 0 && item < items_);
  return places_[static_cast<std::size_t>(item)].load(std::memory_order_relaxed) == kEmpty &&
         !is_disk_full_.load(std::memory_order_relaxed);
}

void SampleCache::keep(std::int64_t item, const Sample& sample) {
  if (!is_wanted(item)) return;
  Place& place = places_[static_cast<std::size_t>(item)];
  std::uint64_t expected = kEmpty;
  if (!place.compare_exchange_strong(expected, kTaken)) return;
  // A sample that does not fit stays marked as taken: it would not fit the next time either.
  const std::size_t needed = sizeof(Header) + rounded_up(sample.bytes.size());
  const std::uint64_t lines = needed / kCacheLineBytes;
  if (lines > kMaxLines) return;
  std::size_t at = used_.load(std::memory_order_relaxed);
  do {
    if (needed > size_ - at) return;
  } while (!used_.compare_exchange_weak(at, at + needed, std::memory_order_relaxed));
  if (!write(at, sample)) {
    is_disk_full_.store(true, std::memory_order_relaxed);
    return;
  }
  kept_items_.fetch_add(1, std::memory_order_relaxed);
  place.store(at / kCacheLineBytes << kLengthBits | lines, std::memory_order_release);
}

bool SampleCache::write(std::size_t at, const Sample& sample) {
  Header header{sample.element, sample.shape, sample.bytes.size(), sample.origin.stamp};
  if (!is_in_file()) {
    new (memory_ + at) Header(header);
    // An empty sample has no bytes to point at.
    if (!sample.bytes.empty()) {
      std::memcpy(memory_ + at + sizeof(Header), sample.bytes.data(), sample.bytes.size());
    }
    return true;
  }
  std::array<iovec, 2> parts = {
      iovec{&header, sizeof(header)},
      iovec{const_cast<std::uint8_t*>(sample.bytes.data()), sample.bytes.size()}};
  std::size_t first = 0;
  while (first < parts.size()) {
    const ssize_t written = ::pwritev(
        file_.get(), &parts[first], static_cast<int>(parts.size() - first), static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    auto left = static_cast<std::size_t>(written);
    at += left;
    for (; first < parts.size() && left >= parts[first].iov_len; ++first)
      left -= parts[first].iov_len;
    if (first < parts.size()) {
      parts[first].iov_base = static_cast<std::uint8_t*>(parts[first].iov_base) + left;
      parts[first].iov_len -= left;
    }
  }
  return true;
}

void SampleCache::will_need(std::int64_t item) const {
  assert(item >= 0 && item < items_);
  const std::uint64_t place =
      places_[static_cast<std::size_t>(item)].load(std::memory_order_relaxed);
  if (place <= kTaken) return;
  if (is_in_file()) {
    (void)::posix_fadvise(file_.get(), static_cast<off_t>(begin_of(place)),
                          static_cast<off_t>(length_of(place)), POSIX_FADV_WILLNEED);
    return;
  }
  const std::uint8_t* const at = memory_ + begin_of(place);
  for (std::size_t i = 0; i < std::min(length_of(place), kMaxPrefetchedBytes); i += kCacheLineBytes)
    __builtin_prefetch(at + i);
}

void SampleCache::forget_memory() const {
  if (!is_in_file()) return;
  (void)::fdatasync(file_.get());  // what is not on the disk yet would not be given up
  (void)::posix_fadvise(file_.get(), 0, 0, POSIX_FADV_DONTNEED);
}

std::int64_t SampleCache::bytes() const {
  return items_ * static_cast<std::int64_t>(sizeof(Place)) +
         static_cast<std::int64_t>(used_.load(std::memory_order_relaxed) - kCacheLineBytes);
}

}  // namespace autotuned::input
