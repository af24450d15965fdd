// SPDX-License-Identifier: Apache-2.0
#include "plugins/host/skeleton.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/folder_names.hpp"
#include "plugins/host/plugin_name.hpp"

namespace autotuned::plugins {
namespace {

constexpr std::string_view kPlaceholder = "@name@";
constexpr std::string_view kTemplateEnding = ".in";
constexpr std::string_view kPluginStem = "plugin";  // plugin.cpp.in becomes NAME.cpp
// The last one is the library that CMake calls `dl`, which the tests link.
constexpr std::array kTargetsOfCMake = {
    "all",        "clean", "edit_cache",    "help", "install", "package", "package_source",
    "preinstall", "test",  "rebuild_cache", "dl"};

Result<void> check_name(const SkeletonSpec& spec) {
  if (!is_plugin_name(spec.name)) {
    return fail(ErrorKind::invalid, fmt::format("'{}' is no plugin name", spec.name), {},
                kPluginNameRule);
  }
  if (std::ranges::find(kTargetsOfCMake, spec.name) != kTargetsOfCMake.end()) {
    return fail(ErrorKind::invalid,
                fmt::format("'{}' is a target that CMake keeps for itself", spec.name), {},
                "choose another name");
  }
  return {};
}

std::string filled_in(std::string text, const std::string& name) {
  for (std::size_t at = 0; (at = text.find(kPlaceholder, at)) != std::string::npos;
       at += name.size()) {
    text.replace(at, kPlaceholder.size(), name);
  }
  return text;
}

// plugin_test.cpp.in → NAME_test.cpp, README.md.in → README.md.
std::string leaf_of(const std::filesystem::path& file, const std::string& name) {
  std::string leaf = file.filename().string();
  leaf.resize(leaf.size() - kTemplateEnding.size());
  if (leaf.starts_with(kPluginStem)) leaf.replace(0, kPluginStem.size(), name);
  return leaf;
}

Result<std::vector<std::filesystem::path>> templates_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  FolderNames names(folder.c_str());
  while (const auto name = names.next()) {
    if (name->ends_with(kTemplateEnding)) files.push_back(folder / *name);
  }
  if (names.failure() || files.empty()) {
    return fail(ErrorKind::io, "holds no templates", folder.string(), "install autotuned again");
  }
  std::ranges::sort(files);
  return files;
}

Result<void> fill_in(const std::filesystem::path& from, const std::filesystem::path& to,
                     const std::string& name) {
  std::ifstream input(from, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(input), {}};
  if (!input.is_open() || input.bad()) {
    return fail(ErrorKind::io, "cannot be read", from.string(), "install autotuned again");
  }
  std::ofstream output(to, std::ios::binary);
  output << filled_in(text, name);
  output.close();
  if (!output) return tl::unexpected(system_error(errno, "cannot be written", to.string()));
  return {};
}

}  // namespace

Result<std::vector<std::filesystem::path>> write_skeleton(const SkeletonSpec& spec) {
  if (auto checked = check_name(spec); !checked) return tl::unexpected(std::move(checked.error()));
  auto templates = templates_in(spec.templates / spec.kind);
  if (!templates) return tl::unexpected(std::move(templates.error()));

  const std::filesystem::path folder = spec.parent / spec.name;
  // 0755: a folder that others can write is one whose plugins are refused.
  if (::mkdir(folder.c_str(), 0755) != 0) {
    if (errno != EEXIST) {
      return tl::unexpected(system_error(errno, "cannot be made", folder.string()));
    }
    return fail(ErrorKind::invalid, "is there already", folder.string(),
                "choose another name, or remove it");
  }
  std::vector<std::filesystem::path> written;
  for (const std::filesystem::path& file : *templates) {
    written.push_back(folder / leaf_of(file, spec.name));
    if (auto filled = fill_in(file, written.back(), spec.name); !filled) {
      std::error_code ignored;
      std::filesystem::remove_all(folder, ignored);
      return tl::unexpected(std::move(filled.error()));
    }
  }
  std::ranges::sort(written);
  return written;
}

}  // namespace autotuned::plugins
