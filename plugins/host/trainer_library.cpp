// SPDX-License-Identifier: Apache-2.0
#include "plugins/host/trainer_library.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "base/json.hpp"
#include "plugins/host/library_file.hpp"
#include "plugins/host/loader.hpp"
#include "plugins/host/needs.hpp"
#include "plugins/host/plugin_name.hpp"
#include "plugins/sdk/autotuned_trainer.h"
#include "recipes/knob_json.hpp"

namespace autotuned::plugins {
namespace {

constexpr const char* kTrainerAlias = "autotuned_trainer_v1";
constexpr std::string_view kStart = "lib";
constexpr std::string_view kEnding = "_trainer.so";

// A property of the library's build and the same of this program's, in the order of comparison.
struct Agreement {
  const char* field;
  const char* words;
  const char* ours;
  const char* remedy;
};
constexpr Agreement kAgreements[] = {
    {"sdk", "version {} of the trainer surface", AUTOTUNED_TRAINER_SDK,
     "build it against this program's plugins/sdk"},
    {"libtorch", "LibTorch {}", AUTOTUNED_LIBTORCH_VERSION,
     "build it with find_package(autotuned), which finds the LibTorch of this program"},
    {"compiler", "{}", AUTOTUNED_TRAINER_COMPILER,
     "C++ objects cross between the two: build it with the same compiler"},
    {"cxx_library", "{}", AUTOTUNED_TRAINER_CXX_LIBRARY,
     "C++ objects cross between the two: build it with the same C++ library"}};

Result<void> check_agreements(const Json& metadata, const std::string& file) {
  for (const Agreement& agreement : kAgreements) {
    const auto theirs = get_string(metadata, agreement.field);
    if (!theirs) return fail(ErrorKind::invalid, "metadata: " + theirs.error().message(), file);
    if (*theirs == agreement.ours) continue;
    return fail(ErrorKind::unsupported,
                fmt::format("was built with {}, this program with {}",
                            fmt::format(fmt::runtime(agreement.words), *theirs),
                            fmt::format(fmt::runtime(agreement.words), agreement.ours)),
                file, agreement.remedy);
  }
  return {};
}

Result<std::vector<recipes::Knob>> knobs_from(const Json& metadata, const std::string& plugin) {
  const Json& list = member(metadata, "knobs");
  if (!list.is_array()) return fail(ErrorKind::invalid, "its metadata have no list of knobs");
  std::vector<recipes::Knob> knobs;
  const std::vector<recipes::Knob> built_in = recipes::knobs_of(Machine{});
  for (const Json& one : list) {
    Result<recipes::Knob> knob = recipes::knob_from_json(one);
    if (!knob) return tl::unexpected(std::move(knob.error()));
    const bool is_word = knob->name.starts_with(plugin + ".") &&
                         is_plugin_name(std::string_view(knob->name).substr(plugin.size() + 1));
    if (!is_word) {
      return fail(ErrorKind::invalid,
                  fmt::format("declares a knob '{}', expected {}.WORD", knob->name, plugin));
    }
    if (recipes::find_knob(built_in, knob->name) ||
        std::ranges::find(knobs, knob->name, &recipes::Knob::name) != knobs.end()) {
      return fail(ErrorKind::invalid,
                  fmt::format("declares a knob '{}', which is there already", knob->name));
    }
    knobs.push_back(std::move(*knob));
  }
  return knobs;
}

Result<std::vector<std::string>> needs_from(const Json& metadata) {
  std::vector<std::string> needs;
  const Json& list = member(metadata, "needs");
  if (list.is_null()) return needs;
  if (!list.is_array()) return fail(ErrorKind::invalid, "its metadata have no list of needs");
  for (const Json& need : list) {
    if (!need.is_string()) return fail(ErrorKind::invalid, "needs something that is no word");
    needs.push_back(need.get<std::string>());
    if (auto reason = why_no_need(needs.back()))
      return fail(ErrorKind::invalid, std::move(*reason));
  }
  return needs;
}

Result<void> check_descriptor(const std::filesystem::path& path, const std::string& metadata) {
  constexpr std::array kFields = {FieldType::number,     // magic
                                  FieldType::number,     // size_bytes
                                  FieldType::text,       // metadata
                                  FieldType::function};  // surface: an address, whatever of
  static_assert(sizeof(autotuned_trainer) == kFields.size() * sizeof(std::uint64_t));
  const auto fields = read_descriptor(path, kTrainerAlias, kFields);
  if (!fields) return tl::unexpected(fields.error());
  if ((*fields)[0].number != AUTOTUNED_TRAINER_MAGIC ||
      (*fields)[1].number < sizeof(autotuned_trainer)) {
    return fail(ErrorKind::invalid, "has no descriptor of this version", path.string(),
                "build it against this program's plugins/sdk");
  }
  if ((*fields)[2].text != metadata || !(*fields)[3].is_set) {
    return fail(ErrorKind::invalid, "has a descriptor that does not fit its metadata",
                path.string(), "build it again");
  }
  return {};
}

}  // namespace

std::string_view to_string(TrainerLibrary::Kind kind) {
  return kind == TrainerLibrary::Kind::extension ? "extension" : "workload";
}

Result<TrainerLibrary> examine_trainer_library(const std::filesystem::path& path) {
  const std::string file = path.string();
  if (auto checked = check_library_file(path); !checked) {
    return tl::unexpected(std::move(checked.error()));
  }
  if (auto checked = check_alias(path, kTrainerAlias); !checked) {
    return tl::unexpected(std::move(checked.error()));
  }
  const Result<std::string> text = read_section(path, AUTOTUNED_TRAINER_SECTION);
  if (!text) return tl::unexpected(text.error());
  if (text->empty()) {
    return fail(ErrorKind::invalid, "does not say what it was built with", file,
                "it has no section " AUTOTUNED_TRAINER_SECTION "; build it against plugins/sdk");
  }
  const Result<Json> metadata = parse_json(*text, file);
  if (!metadata) {
    return fail(ErrorKind::invalid, "metadata: " + metadata.error().what, file,
                "name, version and summary hold no quotation marks, knobs are a JSON array");
  }
  if (auto checked = check_agreements(*metadata, file); !checked) {
    return tl::unexpected(std::move(checked.error()));
  }
  if (auto checked = check_descriptor(path, *text); !checked) {
    return tl::unexpected(std::move(checked.error()));
  }
  TrainerLibrary library;
  library.path = path;
  std::string kind;
  for (const auto& [field, into] :
       {std::pair{"name", &library.name}, std::pair{"version", &library.version},
        std::pair{"summary", &library.summary}, std::pair{"kind", &kind}}) {
    auto value = get_string(*metadata, field);
    if (!value) return fail(ErrorKind::invalid, "metadata: " + value.error().message(), file);
    *into = std::move(*value);
  }
  if (kind != "extension" && kind != "workload") {
    return fail(ErrorKind::invalid, "is of the kind '" + kind + "'", file,
                "known are extension and workload");
  }
  library.kind =
      kind == "extension" ? TrainerLibrary::Kind::extension : TrainerLibrary::Kind::workload;
  const std::string leaf = path.filename().string();
  const std::string expected = std::string(kStart) + library.name + std::string(kEnding);
  if (!leaf.starts_with(
          expected)) {  // it may go on with a version, behind a link of the plain name
    return fail(ErrorKind::invalid,
                fmt::format("calls itself '{}' but its file is '{}'", library.name, leaf), file,
                "the plugin NAME is the file libNAME_trainer.so");
  }
  auto needs = needs_from(*metadata);
  if (!needs) {
    needs.error().where = file;
    return tl::unexpected(std::move(needs.error()));
  }
  library.needs = std::move(*needs);
  auto knobs = knobs_from(*metadata, library.name);
  if (!knobs) {
    knobs.error().where = file;
    return tl::unexpected(std::move(knobs.error()));
  }
  library.knobs = std::move(*knobs);
  if (library.kind == TrainerLibrary::Kind::extension && library.knobs.empty()) {
    return fail(ErrorKind::invalid, "declares no knob", file,
                "an extension does nothing until one of its knobs is turned");
  }
  return library;
}

Result<const void*> load_trainer_library(const TrainerLibrary& library) {
  const Result<const void*> alias = load_alias(library.path, kTrainerAlias);
  if (!alias) return tl::unexpected(alias.error());
  return static_cast<const autotuned_trainer*>(*alias)->surface;
}

}  // namespace autotuned::plugins
