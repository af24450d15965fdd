// SPDX-License-Identifier: Apache-2.0
#include "daemon/guide/file_advice.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/printable.hpp"
#include "daemon/guide/folder_listing.hpp"

namespace autotuned::daemon {
namespace {

template <std::size_t kCount>
bool is_one_of(const std::array<std::string_view, kCount>& endings, std::string_view ending) {
  return std::ranges::find(endings, ending) != endings.end();
}

}  // namespace

Error file_where_folder_is_expected(const std::filesystem::path& file) {
  constexpr std::array<std::string_view, 2> kTables = {".csv", ".tsv"};
  constexpr std::array<std::string_view, 3> kPictures = {".jpg", ".jpeg", ".png"};
  constexpr std::array<std::string_view, 2> kRecipes = {".yaml", ".yml"};
  constexpr std::array<std::string_view, 6> kArchives = {".zip", ".tgz", ".gz",
                                                         ".xz",  ".bz2", ".7z"};
  const std::string ending = lower_ending(file.filename().string());
  const std::filesystem::path parent = file.parent_path();
  const std::string word = shell_word(file.string());
  const std::string of_folder =
      "`autotuned init" + (parent.empty() ? "" : " " + shell_word(parent.string())) + "`";
  const auto told = [&file](const std::string& what, const std::string& remedy) {
    return Error{ErrorKind::invalid, "is " + what + ", and `init` takes a folder or a text",
                 file.string(), remedy};
  };
  if (is_one_of(kTables, ending)) {
    return told("a table", "name the folder that holds it and its pictures: " + of_folder);
  }
  if (is_one_of(kPictures, ending)) {
    return told("a picture",
                "put the pictures of each class into a folder of its own, and name "
                "the folder above these");
  }
  if (file.filename().string().find("-idx") != std::string::npos) {
    return told("an IDX file", "name the folder that holds images and labels: " + of_folder);
  }
  if (ending == ".npy") {
    return told("an array",
                "put images.npy beside labels.npy, and name their folder: " + of_folder);
  }
  if (ending == ".npz") {
    return told("an archive of arrays",
                "save images and labels as images.npy and labels.npy (numpy.save), and name their "
                "folder");
  }
  if (ending == ".tar") {
    return told("a tar file", "of shards with KEY.jpg and KEY.cls name the folder: " + of_folder +
                                  "; unpack any other");
  }
  if (is_one_of(kArchives, ending)) {
    return told("a packed file", "unpack it, and name the folder with the data");
  }
  if (is_one_of(kRecipes, ending)) {
    return told("a recipe", "`autotuned check " + word + "` looks at it, `autotuned run " + word +
                                "` trains it");
  }
  if (ending == ".py") {
    return told("a script", "`autotuned run " + word + "` tunes it as it is, without a recipe");
  }
  return told("a file", "name the folder with the data: " + of_folder);
}

}  // namespace autotuned::daemon
