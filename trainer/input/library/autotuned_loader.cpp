// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/library/autotuned_loader.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "trainer/input/library/block_pool.hpp"
#include "trainer/input/library/loading.hpp"

using autotuned::ErrorKind;
using autotuned::fail;
using autotuned::forward_error;
using autotuned::Result;
using autotuned::input::Block;
using autotuned::input::BlockPool;
using autotuned::input::Loading;
using autotuned::input::PixelType;
using autotuned::input::SampleShape;
using autotuned::input::TargetType;

struct autotuned_loader {
  std::unique_ptr<Loading> loading;
  pid_t process = ::getpid();
};

namespace {

struct NumberType {
  std::uint8_t code = 0;
  std::uint8_t bits = 0;
};
constexpr NumberType kInt64{0, 64};
constexpr NumberType kUint8{1, 8};
constexpr NumberType kFloat32{2, 32};

// A block in the hands of the caller.
struct Lent {
  autotuned_loader_tensor tensor{};
  std::vector<std::int64_t> shape;
  Block block;
  std::shared_ptr<BlockPool> pool;
  pid_t process = ::getpid();
};

std::unique_ptr<Lent> lend(Block block, std::shared_ptr<BlockPool> pool, NumberType type,
                           std::vector<std::int64_t> shape) {
  auto lent = std::make_unique<Lent>();
  lent->shape = std::move(shape);
  lent->block = std::move(block);
  lent->pool = std::move(pool);
  constexpr std::int32_t kHostMemory = 1;
  lent->tensor = {.data = lent->block.get(),
                  .device_type = kHostMemory,
                  .dimensions = static_cast<std::int32_t>(lent->shape.size()),
                  .type_code = type.code,
                  .type_bits = type.bits,
                  .type_lanes = 1,
                  .shape = lent->shape.data(),
                  .owner = lent.get(),
                  .deleter = &autotuned_loader_give_back};
  return lent;
}

void set_text(char** to, const std::string& text) {
  if (to != nullptr) *to = ::strdup(text.c_str());
}

// Nothing of C++ leaves the library.
template <class Work>
std::int32_t done(char** error, Work&& work) {
  try {
    const Result<void> worked = work();
    if (worked) return 1;
    set_text(error, worked.error().message());
  } catch (const std::bad_alloc&) {
    set_text(error, "autotuned.Loader: no memory");
  } catch (const std::exception& exception) {
    set_text(error, std::string("autotuned.Loader: ") + exception.what());
  }
  return 0;
}

Result<void> check_process(const autotuned_loader& loader) {
  if (loader.process == ::getpid()) return {};
  return fail(ErrorKind::unsupported,
              "this process was forked from the one that made the loader, and lacks its threads",
              "autotuned.Loader", "make the loader in the process that uses it");
}

}  // namespace

int32_t autotuned_loader_interface(void) {
  return AUTOTUNED_LOADER_INTERFACE;
}

autotuned_loader* autotuned_loader_open(const char* settings, char** description, char** error) {
  std::unique_ptr<autotuned_loader> opened;
  const std::int32_t is_done = done(error, [&]() -> Result<void> {
    auto loading = Loading::open(settings);
    if (!loading) return forward_error(loading);
    opened = std::make_unique<autotuned_loader>();
    opened->loading = std::move(*loading);
    set_text(description, opened->loading->description());
    return {};
  });
  return is_done != 0 ? opened.release() : nullptr;
}

int32_t autotuned_loader_start(autotuned_loader* loader, int64_t epoch, int64_t sample,
                               char** error) {
  return done(error, [&]() -> Result<void> {
    if (auto here = check_process(*loader); !here) return here;
    return loader->loading->start({epoch, sample});
  });
}

int32_t autotuned_loader_give(autotuned_loader* loader, int64_t epoch, int64_t sample,
                              const uint32_t* indices, int64_t count, char** error) {
  return done(error, [&]() -> Result<void> {
    if (auto here = check_process(*loader); !here) return here;
    const auto samples = static_cast<std::size_t>(std::max<std::int64_t>(0, count));
    return loader->loading->give({epoch, sample}, std::span(indices, samples));
  });
}

int32_t autotuned_loader_next(autotuned_loader* loader, autotuned_loader_batch* batch,
                              char** error) {
  return done(error, [&]() -> Result<void> {
    if (auto here = check_process(*loader); !here) return here;
    Loading& loading = *loader->loading;
    auto taken = loading.next();
    if (!taken) return forward_error(taken);
    const SampleShape shape = loading.shape();
    auto images = lend(std::move(taken->images), loading.image_blocks(),
                       loading.pixel_type() == PixelType::uint8 ? kUint8 : kFloat32,
                       {taken->samples, shape.channels, shape.height, shape.width});
    const TargetType target = loading.target();
    NumberType type = kFloat32;
    std::vector<std::int64_t> sizes = {taken->samples};
    if (target.is_mask()) {
      type = kUint8;
      sizes.insert(sizes.end(), {shape.height, shape.width});
    } else if (target.is_class()) {
      type = kInt64;
    } else {
      sizes.push_back(target.width);
    }
    auto targets = lend(std::move(taken->targets), loading.target_blocks(), type, std::move(sizes));
    batch->images = &images.release()->tensor;
    batch->targets = &targets.release()->tensor;
    return {};
  });
}

void autotuned_loader_close(autotuned_loader* loader) {
  // A forked child has none of the threads that this would wait for.
  if (loader == nullptr || loader->process != ::getpid()) return;
  delete loader;
}

void autotuned_loader_give_back(autotuned_loader_tensor* tensor) {
  if (tensor == nullptr) return;
  auto* const lent = static_cast<Lent*>(tensor->owner);
  // In a forked child the pool may be locked by a thread that is not there.
  if (lent->process != ::getpid()) return;
  const std::unique_ptr<Lent> owned(lent);
  owned->pool->give_back(std::move(owned->block));
}

void autotuned_loader_free_text(char* text) {
  std::free(text);
}
