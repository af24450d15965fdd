// SPDX-License-Identifier: Apache-2.0
// Scopes in which loader threads run. Private to trainer/: includes LibTorch.
#pragma once

#include "trainer/feed/feed.hpp"

namespace autotuned::trainer {

// Loader threads run while it lives.
class LoadingScope {
 public:
  explicit LoadingScope(Feed& feed) : feed_(feed) { feed_.resume(); }
  ~LoadingScope() { feed_.pause(); }
  LoadingScope(const LoadingScope&) = delete;
  LoadingScope& operator=(const LoadingScope&) = delete;

 private:
  Feed& feed_;
};

// Ends the reuse that Feed::begin_reuse() began. The loader must be paused again before.
class ReuseScope {
 public:
  explicit ReuseScope(Feed& feed) : feed_(feed) {}
  ~ReuseScope() { feed_.end_reuse(); }
  ReuseScope(const ReuseScope&) = delete;
  ReuseScope& operator=(const ReuseScope&) = delete;

 private:
  Feed& feed_;
};

}  // namespace autotuned::trainer
