// SPDX-License-Identifier: Apache-2.0
#include "base/file_pattern.hpp"

#include <glob.h>

#include <algorithm>
#include <cerrno>
#include <optional>

namespace autotuned {
namespace {

// glob() has no other way to return an error.
thread_local std::optional<Error> folder_error;

int remember_error(const char* folder, int number) {
  // A pattern may name folders that are not there, or files where it expects folders.
  if (number == ENOENT || number == ENOTDIR) return 0;
  folder_error = system_error(number, "cannot read the folder", folder);
  return 1;
}

struct Matches {
  glob_t found{};
  Matches() = default;
  ~Matches() { ::globfree(&found); }
  Matches(const Matches&) = delete;
  Matches& operator=(const Matches&) = delete;
};

}  // namespace

Result<std::vector<std::string>> files_matching(const std::string& pattern) {
  Matches matches;
  folder_error.reset();
  // GLOB_MARK appends a slash to folders.
  const int status =
      ::glob(pattern.c_str(), GLOB_NOSORT | GLOB_MARK, remember_error, &matches.found);
  if (status == GLOB_NOSPACE) {
    return fail(ErrorKind::out_of_memory, "no memory for the names of so many files", pattern);
  }
  if (status == GLOB_ABORTED) {
    return tl::unexpected(
        folder_error.value_or(Error{ErrorKind::io, "cannot read its folder", pattern, {}}));
  }
  std::vector<std::string> files;
  for (std::size_t i = 0; i < matches.found.gl_pathc; ++i) {
    const std::string_view file = matches.found.gl_pathv[i];
    if (!file.ends_with('/')) files.emplace_back(file);
  }
  std::ranges::sort(files);
  return files;
}

std::string as_pattern(std::string_view path) {
  std::string pattern;
  for (const char letter : path) {
    if (letter == '*' || letter == '?' || letter == '[' || letter == '\\') pattern += '\\';
    pattern += letter;
  }
  return pattern;
}

}  // namespace autotuned
