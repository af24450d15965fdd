// SPDX-License-Identifier: Apache-2.0
// One thread that resizes pictures of bytes: the part of ours in bench/resize.py, which compares with PIL and
// torchvision.
//
//   resize_pictures SOURCE RESULT COUNT SIDE TARGET
//
// SOURCE holds COUNT pictures of 3 x SIDE x SIDE bytes. Writes what they become, 3 x TARGET x TARGET, to
// RESULT; then, for every line with a number of seconds on standard input, answers with pictures per second.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <vector>

#include "trainer/input/transforms/pipeline.hpp"

namespace {

using namespace autotuned::input;
using Clock = std::chrono::steady_clock;

class Pictures {
 public:
  Pictures(const char* file, std::size_t count, int side, int target)
      : shape_{3, side, side},
        bytes_of_one_(static_cast<std::size_t>(shape_.elements())),
        count_(count) {
    std::ifstream source(file, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(source), std::istreambuf_iterator<char>());
    const Transform resize{"resize", {{"size", target}}};
    auto made = Pipeline::compile(type_of(Element::uint8, shape_), {&resize, 1}, 1);
    if (!made || bytes_.size() != count * bytes_of_one_) {
      std::fprintf(stderr, "error: %s\n", made ? "SOURCE has another size" : "no such resize");
      std::exit(2);
    }
    pipeline_ = std::move(*made);
    scratch_ = pipeline_.make_scratch();
    out_.resize(pipeline_.written_bytes(PixelType::uint8));
  }

  const std::vector<std::uint8_t>& resized(std::size_t i) {
    const Sample sample{Element::uint8, shape_,
                        std::span(bytes_).subspan(i * bytes_of_one_, bytes_of_one_)};
    if (!pipeline_.run(sample, {}, PixelType::uint8, out_.data(), scratch_)) std::exit(1);
    return out_;
  }

  double per_second(double seconds) {
    const auto start = Clock::now();
    std::chrono::duration<double> passed{0};
    std::size_t done = 0;
    for (; passed.count() < seconds; passed = Clock::now() - start) {
      for (int i = 0; i < 16; ++i)
        (void)resized(done++ % count_);
    }
    return static_cast<double>(done) / passed.count();
  }

 private:
  SampleShape shape_;
  std::size_t bytes_of_one_;
  std::size_t count_;
  std::vector<std::uint8_t> bytes_;
  std::vector<std::uint8_t> out_;
  Pipeline pipeline_;
  Pipeline::Scratch scratch_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: resize_pictures SOURCE RESULT COUNT SIDE TARGET\n");
    return 2;
  }
  const auto count = static_cast<std::size_t>(std::atol(argv[3]));
  Pictures pictures(argv[1], count, std::atoi(argv[4]), std::atoi(argv[5]));
  std::ofstream result(argv[2], std::ios::binary);
  for (std::size_t i = 0; i < count; ++i) {
    const auto& bytes = pictures.resized(i);
    result.write(reinterpret_cast<const char*>(bytes.data()),
                 static_cast<std::streamsize>(bytes.size()));
  }
  result.close();
  std::cout << "ready" << std::endl;
  for (double seconds = 0; std::cin >> seconds;)
    std::cout << pictures.per_second(seconds) << std::endl;
  return 0;
}
