// SPDX-License-Identifier: Apache-2.0
#include "trainer/asked_job.hpp"

#include <filesystem>
#include <string>
#include <utility>

#include "plugins/host/trust.hpp"

namespace autotuned::trainer {
namespace {

// The session has examined the files; the process that runs their code examines them again.
Result<std::vector<plugins::TrainerLibrary>> libraries_from(const Json& request) {
  std::vector<plugins::TrainerLibrary> libraries;
  const Json& list = member(request, "plugins");
  if (list.is_null()) return libraries;
  if (!list.is_array()) return fail(ErrorKind::invalid, "expected a list of files", "plugins");
  for (const Json& one : list) {
    if (!one.is_string()) return fail(ErrorKind::invalid, "expected a list of files", "plugins");
    const std::filesystem::path path = one.get<std::string>();
    const auto folder = plugins::trusted_folder(path.parent_path());
    if (!folder) return tl::unexpected(folder.error());
    const auto file = plugins::trusted_file(path, *folder);
    if (!file) return tl::unexpected(file.error());
    auto library = plugins::examine_trainer_library(*file);
    if (!library) return tl::unexpected(library.error());
    libraries.push_back(std::move(*library));
  }
  return libraries;
}

}  // namespace

Result<AskedJob> asked_of(const Json& request) {
  auto recipe = recipes::Recipe::from_json(member(request, "recipe"));
  if (!recipe) return tl::unexpected(recipe.error());
  auto configuration = Configuration::from_json(member(request, "configuration"));
  if (!configuration) return tl::unexpected(configuration.error());
  auto libraries = libraries_from(request);
  if (!libraries) return tl::unexpected(libraries.error());
  return AskedJob{std::move(*recipe), std::move(*configuration), std::move(*libraries)};
}

}  // namespace autotuned::trainer
