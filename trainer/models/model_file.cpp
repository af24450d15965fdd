// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/model_file.hpp"

#include <caffe2/serialize/inline_container.h>

#include <algorithm>
#include <array>
#include <exception>
#include <fstream>
#include <string_view>
#include <vector>

namespace autotuned::trainer {
namespace {

constexpr const char* kPickle =
    "it is a pickle that torch.save() wrote, a state dictionary or a module, which needs its "
    "Python code";
constexpr const char* kExported =
    "it is a program of torch.export (.pt2), which cannot be trained from C++";

}  // namespace

std::string what_instead_of_torchscript(const std::filesystem::path& file) {
  std::array<char, 2> front{};
  std::ifstream in(file, std::ios::binary);
  if (!in.read(front.data(), front.size())) return in.eof() ? "the file is empty" : "";
  // The pickles of PyTorch before 1.6 begin with their protocol; all else that it writes are zip archives.
  if (front[0] == '\x80') return kPickle;
  if (std::string_view(front.data(), front.size()) != "PK") return {};
  try {
    caffe2::serialize::PyTorchStreamReader archive(file.string());
    const std::vector<std::string> records = archive.getAllRecords();
    const auto has = [&records](std::string_view name) {
      return std::ranges::any_of(records,
                                 [name](const std::string& one) { return one.ends_with(name); });
    };
    if (has("archive_format") || has("serialized_exported_program.json")) return kExported;
    if (has("data.pkl") && !has("constants.pkl")) return kPickle;
  } catch (const std::exception&) {
    // A zip of something else.
  }
  return {};
}

}  // namespace autotuned::trainer
