// SPDX-License-Identifier: Apache-2.0
#include "daemon/guide/mask_numbers.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/text.hpp"
#include "trainer/input/decode/png_decoder.hpp"

namespace autotuned::daemon {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{64} << 20U;
constexpr int kNoClass = 255;

std::span<const std::uint8_t> span_of(const std::string& file) {
  return {reinterpret_cast<const std::uint8_t*>(file.data()), file.size()};
}

void look_at(const std::filesystem::path& file, input::PngDecoder& decoder, MaskNumbers& found) {
  const auto content = read_file(file, kMaxBytes);
  if (!content || !input::is_png(span_of(*content))) return;
  const auto shape = decoder.begin(span_of(*content));
  if (!shape) {
    if (shape.error().kind == ErrorKind::unsupported) found.others.push_back(file);
    return;
  }
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(shape->elements()));
  if (const auto decoded = decoder.decode(pixels.data()); !decoded) return;
  ++found.masks;
  std::vector<bool> has(256);
  for (const std::uint8_t pixel : pixels)
    has[pixel] = true;
  for (int number = 0; number < 256; ++number)
    if (has[static_cast<std::size_t>(number)]) found.numbers.insert(number);
}

}  // namespace

MaskNumbers numbers_in_masks(const std::vector<std::filesystem::path>& files, std::size_t most) {
  MaskNumbers found;
  input::PngDecoder decoder(input::PngPixels::numbers);
  const std::size_t count = std::min(files.size(), most);
  for (std::size_t i = 0; i < count; ++i)
    look_at(files[i * files.size() / count], decoder, found);
  return found;
}

MaskClassesGuess classes_of(const std::set<int>& numbers) {
  std::set<int> classes = numbers;
  classes.erase(kNoClass);
  const auto different = static_cast<int>(classes.size());
  const bool begins_at_0 = classes.contains(0);
  const int up_to = classes.empty() ? 0 : *classes.rbegin() + 1;
  const bool has_few_gaps = up_to <= 2 * different;
  // 0 and 255 are the two sides of a mask without further classes.
  const bool is_binary = classes == std::set<int>{0} && numbers.contains(kNoClass);
  MaskClassesGuess guess;
  if (numbers.empty() || (begins_at_0 && has_few_gaps && !is_binary)) {
    guess.classes = std::max(up_to, 2);
    guess.ignores_255 = numbers.contains(kNoClass);
    return guess;
  }
  // With gaps as wide as these, 255 is the last step; beside 1, 2, 3 it is what does not count.
  const bool is_class = is_binary || !has_few_gaps;
  if (is_class && numbers.contains(kNoClass)) classes.insert(kNoClass);
  guess.ignores_255 = !is_class && numbers.contains(kNoClass);
  if (classes.size() < 2) {
    guess.classes = std::max(up_to, 2);
    return guess;
  }
  guess.values.assign(classes.begin(), classes.end());
  guess.classes = std::ssize(guess.values);
  return guess;
}

std::string text_of(const std::set<int>& numbers) {
  if (numbers.empty()) return "none";
  const int first = *numbers.begin();
  const int last = *numbers.rbegin();
  constexpr std::size_t kMaxTold = 12;
  if (numbers.size() > 2 && last - first + 1 == static_cast<int>(numbers.size())) {
    return std::to_string(first) + " to " + std::to_string(last);
  }
  std::vector<std::string> names;
  for (const int number : numbers)
    names.push_back(std::to_string(number));
  return format_names(names, kMaxTold);
}

}  // namespace autotuned::daemon
