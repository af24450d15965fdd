// SPDX-License-Identifier: Apache-2.0
#include "plugins/host/loader.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/dll/shared_library.hpp>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/digest.hpp"
#include "base/file.hpp"
#include "base/folder_names.hpp"
#include "base/machine/machine.hpp"
#include "plugins/host/library_file.hpp"
#include "plugins/host/needs.hpp"
#include "plugins/host/plugin_name.hpp"
#include "plugins/host/trainer_library.hpp"
#include "plugins/host/trust.hpp"
#include "plugins/host/yaml_plugin.hpp"
#include "plugins/sdk/autotuned_plugin.h"

namespace autotuned::plugins {
namespace {

constexpr const char* kAlias = "autotuned_plugin_v1";
constexpr std::string_view kTrainerEnding = "_trainer.so";
constexpr const char* kTrainerKind = "trainer";  // until it is known which of the two
constexpr std::size_t kMaxAnswerBytes = 1U << 20U;
constexpr std::size_t kMaxPluginBytes = 1U << 28U;  // of a file that is searched for names of knobs

class LibraryPolicy final : public Policy {
 public:
  LibraryPolicy(std::string name, const autotuned_plugin* descriptor)
      : name_(std::move(name)), descriptor_(descriptor) {}

  [[nodiscard]] const std::string& name() const override { return name_; }

  Result<Json> propose(const Json& situation) override {
    std::string text;
    if (auto asked = ask(to_line(situation), &text); !asked) {
      return tl::unexpected(std::move(asked.error()));
    }
    Result<Json> answer = parse_json(text, where(), kMaxAnswerBytes);
    if (!answer) return fail(ErrorKind::invalid, answer.error().what, where());
    if (!answer->is_object()) return fail(ErrorKind::invalid, "answered no JSON object", where());
    if (const Json& error = member(*answer, "error"); !error.is_null()) {
      return fail(ErrorKind::invalid,
                  "failed: " + (error.is_string() ? error.get<std::string>() : to_line(error)),
                  where());
    }
    return answer;
  }

 private:
  [[nodiscard]] std::string where() const { return "plugin " + name_; }

  // The surface forbids exceptions, but a plugin that breaks the rule must not end the session.
  Result<void> ask(const std::string& question, std::string* text) const {
    try {
      const char* const answer = descriptor_->propose(question.c_str());
      if (answer == nullptr) return fail(ErrorKind::invalid, "answered nothing (NULL)", where());
      text->assign(answer, ::strnlen(answer, kMaxAnswerBytes + 1));
      descriptor_->release(answer);
      return {};
    } catch (const std::exception& error) {
      return fail(ErrorKind::invalid, std::string("threw an exception: ") + error.what(), where());
    } catch (...) {
      return fail(ErrorKind::invalid, "threw an exception of an unknown type", where());
    }
  }

  std::string name_;
  const autotuned_plugin* descriptor_;
};

// Libraries are never closed, also refused ones: threads and registrations of a library must not outlive its code.
const boost::dll::shared_library& keep(boost::dll::shared_library library) {
  static auto* const kept = new std::vector<std::unique_ptr<boost::dll::shared_library>>;
  kept->push_back(std::make_unique<boost::dll::shared_library>(std::move(library)));
  return *kept->back();
}

}  // namespace

Result<const void*> load_alias(const std::filesystem::path& file, const std::string& name) {
  try {
    const boost::dll::shared_library& library = keep(boost::dll::shared_library(
        file, boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local));
    // The alias may be a function or hold any value, so it is not dereferenced as a pointer: its bytes are copied.
    const auto& bytes = library.get<const unsigned char>(name);
    const void* alias = nullptr;
    std::memcpy(&alias, &bytes, sizeof alias);
    Dl_info of_alias{};
    Dl_info of_descriptor{};
    const bool is_inside = alias != nullptr && ::dladdr(&bytes, &of_alias) != 0 &&
                           ::dladdr(alias, &of_descriptor) != 0 &&
                           of_alias.dli_fbase == of_descriptor.dli_fbase;
    if (!is_inside) {
      return fail(ErrorKind::invalid, fmt::format("has an alias {} that is no pointer", name),
                  file.string(), "the alias holds the address of the library's descriptor");
    }
    return alias;
  } catch (const std::exception& error) {
    return fail(ErrorKind::unsupported, std::string("cannot be loaded: ") + error.what(),
                file.string());
  }
}

namespace {

constexpr std::array kDescriptorFields = {FieldType::number,     // magic
                                          FieldType::number,     // size_bytes
                                          FieldType::text,       // name
                                          FieldType::text,       // version
                                          FieldType::text,       // summary
                                          FieldType::function,   // propose
                                          FieldType::function};  // release
static_assert(sizeof(autotuned_plugin) == kDescriptorFields.size() * sizeof(std::uint64_t));

// `fields` as kDescriptorFields names them.
Result<void> check_descriptor(const std::vector<DescriptorField>& fields, const std::string& name,
                              const std::string& file) {
  const char* const rule = "a descriptor is a constant, complete when the library is built";
  if (fields[0].number != AUTOTUNED_PLUGIN_MAGIC) {
    return fail(ErrorKind::invalid,
                fmt::format("has a descriptor that starts with {:#x} instead of {:#x}",
                            fields[0].number, AUTOTUNED_PLUGIN_MAGIC),
                file, rule);
  }
  if (fields[1].number < sizeof(autotuned_plugin)) {
    return fail(ErrorKind::invalid,
                fmt::format("has a descriptor of {} bytes, version 1 has {}", fields[1].number,
                            sizeof(autotuned_plugin)),
                file, rule);
  }
  if (!std::ranges::all_of(fields.begin() + 2, fields.end(), &DescriptorField::is_set)) {
    return fail(
        ErrorKind::invalid, "has a descriptor with an empty field", file,
        "name, version, summary, propose and release must be set, when the library is built");
  }
  if (fields[2].text != name) {
    return fail(ErrorKind::invalid,
                fmt::format("calls itself '{}' but its file is '{}'", fields[2].text, name), file,
                "the plugin NAME is the file libNAME.so");
  }
  return {};
}

// Whether the code that ran when the library was loaded left the descriptor as it was in the file.
bool is_as_read(const autotuned_plugin& descriptor, const std::vector<DescriptorField>& fields) {
  const auto is_text = [](const char* text, const DescriptorField& field) {
    return text != nullptr && field.text == text;
  };
  return descriptor.magic == fields[0].number && descriptor.size_bytes == fields[1].number &&
         is_text(descriptor.name, fields[2]) && is_text(descriptor.version, fields[3]) &&
         is_text(descriptor.summary, fields[4]) && descriptor.propose != nullptr &&
         descriptor.release != nullptr;
}

using Loading = std::function<void(const std::string&)>;

enum class Code { may_run, stays_out };

Result<void> examine_library(FoundPlugin& found, const Loading& loading) {
  if (auto checked = check_library_file(found.path); !checked) return checked;
  if (auto checked = check_alias(found.path, kAlias); !checked) return checked;
  const auto fields = read_descriptor(found.path, kAlias, kDescriptorFields);
  if (!fields) return tl::unexpected(fields.error());
  if (auto checked = check_descriptor(*fields, found.name, found.path.string()); !checked) {
    return checked;
  }
  if (loading) loading(found.name);
  const Result<const void*> alias = load_alias(found.path, kAlias);
  if (!alias) return tl::unexpected(alias.error());
  const auto* const descriptor = static_cast<const autotuned_plugin*>(*alias);
  if (!is_as_read(*descriptor, *fields)) {
    return fail(ErrorKind::invalid, "changed its descriptor while it was loaded",
                found.path.string(), "name, version and summary are constants");
  }
  found.version = descriptor->version;
  found.summary = descriptor->summary;
  found.policy = std::make_shared<LibraryPolicy>(found.name, descriptor);
  return {};
}

Result<void> examine_yaml(FoundPlugin& found) {
  Result<YamlPlugin> plugin = read_yaml_plugin(found.path);
  if (!plugin) return tl::unexpected(std::move(plugin.error()));
  found.version = std::move(plugin->version);
  found.summary = std::move(plugin->summary);
  found.policy = std::move(plugin->policy);
  found.needs = std::move(plugin->needs);
  return {};
}

// Examines a library that only the trainer loads.
Result<void> examine_for_trainer(FoundPlugin& found) {
  Result<TrainerLibrary> library = examine_trainer_library(found.path);
  if (!library) return tl::unexpected(std::move(library.error()));
  if (library->name != found.name) {
    return fail(ErrorKind::invalid,
                fmt::format("calls itself '{}' but was found as '{}'", library->name, found.name),
                found.path.string());
  }
  found.kind = to_string(library->kind);
  found.version = std::move(library->version);
  found.summary = std::move(library->summary);
  found.knobs = std::move(library->knobs);
  found.needs = std::move(library->needs);
  return {};
}

Result<void> examine(FoundPlugin& found, const std::filesystem::path& folder,
                     const Loading& loading) {
  if (!is_plugin_name(found.name)) {
    return fail(ErrorKind::invalid, fmt::format("'{}' is no plugin name", found.name),
                found.path.string(), kPluginNameRule);
  }
  Result<std::filesystem::path> file = trusted_file(found.path, folder);
  if (!file) return tl::unexpected(std::move(file.error()));
  found.path = std::move(*file);
  Result<std::string> digest = sha256_hex_of_file(found.path);
  if (!digest) return tl::unexpected(std::move(digest.error()));
  found.sha256 = std::move(*digest);
  if (found.kind == kTrainerKind) return examine_for_trainer(found);
  return found.kind == "yaml" ? examine_yaml(found) : examine_library(found, loading);
}

// A plugin's file by its name: libNAME.so, libNAME_trainer.so or NAME.yaml.
std::optional<FoundPlugin> named_by(const std::filesystem::path& file) {
  const std::string leaf = file.filename().string();
  FoundPlugin found;
  found.path = file;
  if (leaf.starts_with("lib") && leaf.ends_with(kTrainerEnding)) {
    found.name = leaf.substr(3, leaf.size() - 3 - kTrainerEnding.size());
    found.kind = kTrainerKind;
    return found;
  }
  if (leaf.starts_with("lib") && leaf.ends_with(".so")) {
    found.name = leaf.substr(3, leaf.size() - 6);
    found.kind = "policy";
    return found;
  }
  if (leaf.ends_with(".yaml")) {
    found.name = leaf.substr(0, leaf.size() - 5);
    found.kind = "yaml";
    return found;
  }
  return std::nullopt;
}

Result<std::vector<FoundPlugin>> files_in(const std::filesystem::path& folder, Code code) {
  std::vector<FoundPlugin> files;
  FolderNames names(folder.c_str());
  while (const auto name = names.next()) {
    auto found = named_by(folder / *name);
    if (found && (code == Code::may_run || found->kind == kTrainerKind)) {
      files.push_back(std::move(*found));
    }
  }
  if (const std::error_code failure = names.failure()) {
    return tl::unexpected(system_error(failure.value(), "cannot be read", folder.string()));
  }
  // If a library and a YAML file have the same name, the library counts.
  std::ranges::sort(files, {},
                    [](const FoundPlugin& file) { return std::pair(file.name, file.kind); });
  return files;
}

void refuse(FoundPlugin& found, const Error& error) {
  found.state = FoundPlugin::State::refused;
  found.refusal = error.message();
}

void look_at_needs(FoundPlugin& found) {
  static const Machine kMachine = detect_machine();
  const auto reason = why_unsupported(found.needs, kMachine);
  if (!reason) return;
  found.state = FoundPlugin::State::unsupported;
  found.policy.reset();
  found.refusal = *reason;
}

}  // namespace

std::string_view to_string(FoundPlugin::State state) {
  switch (state) {
    case FoundPlugin::State::ready:
      return "ready";
    case FoundPlugin::State::refused:
      return "refused";
    case FoundPlugin::State::unsupported:
      return "unsupported";
  }
  return "";
}

Json FoundPlugin::to_json() const {
  return {{"name", name}, {"state", to_string(state)}, {"version", version}, {"summary", summary},
          {"kind", kind}, {"path", path.string()},     {"sha256", sha256},   {"refusal", refusal}};
}

std::string FoundPlugin::build_digest() const {
  return trainer_sha256.empty() ? sha256 : sha256_hex(sha256 + trainer_sha256);
}

std::vector<std::filesystem::path> plugin_folders(const std::vector<std::filesystem::path>& extra,
                                                  const std::filesystem::path& built_in) {
  std::vector<std::filesystem::path> folders = extra;
  if (const char* const list = std::getenv("AUTOTUNED_PLUGIN_PATH"); list != nullptr) {
    std::string_view rest = list;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find(':'), rest.size());
      if (end > 0) folders.emplace_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  std::filesystem::path data;
  if (const char* const xdg = std::getenv("XDG_DATA_HOME"); xdg != nullptr && *xdg == '/') {
    data = xdg;
  } else if (const char* const home = std::getenv("HOME"); home != nullptr && *home == '/') {
    data = std::filesystem::path(home) / ".local" / "share";
  }
  std::error_code ignored;
  const std::filesystem::path own = data / "autotuned" / "plugins";
  if (!data.empty() && std::filesystem::exists(own, ignored)) folders.push_back(own);
  folders.push_back(built_in);
  return folders;
}

std::vector<std::string> plugin_names(const std::vector<std::filesystem::path>& folders) {
  std::set<std::string> names;
  for (const std::filesystem::path& folder : folders) {
    const auto trusted = trusted_folder(folder);
    if (!trusted) continue;
    const auto files = files_in(*trusted, Code::may_run);
    if (!files) continue;
    for (const FoundPlugin& file : *files) {
      if (is_plugin_name(file.name)) names.insert(file.name);
    }
  }
  return {names.begin(), names.end()};
}

namespace {

bool is_trainer_library(const FoundPlugin& found) {
  return found.kind != "policy" && found.kind != "yaml" && found.kind != "folder";
}

bool is_part_of_name(char one) {
  return one == '.' || one == '_' || std::isalnum(static_cast<unsigned char>(one)) != 0;
}

// Whether a text holds this name by itself.
bool has_name(std::string_view text, std::string_view name) {
  for (std::size_t at = text.find(name); at != std::string_view::npos;
       at = text.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    const bool begins = at == 0 || !is_part_of_name(text[at - 1]);
    if (begins && (end == text.size() || !is_part_of_name(text[end]))) return true;
  }
  return false;
}

// Whether machine code may hold this name. Compilers store the eight or four bytes that a short string begins with as a
// number.
bool may_have_name(std::string_view code, std::string_view name) {
  const std::size_t size = name.size() >= 8 ? 8 : std::min<std::size_t>(name.size(), 4);
  return code.find(name.substr(0, size)) != std::string_view::npos;
}

// Notes at each plugin the digests of the trainer libraries whose code its proposals turn on: of those with a knob that
// its file names, and of that of its own name. Of the latter also if the library is refused: a build that can be used
// replaces it.
void note_trainer_libraries(std::vector<FoundPlugin>& plugins) {
  const auto has_knobs = [](const FoundPlugin& plugin) { return !plugin.knobs.empty(); };
  const bool has_extension = std::ranges::any_of(plugins, has_knobs);
  for (FoundPlugin& plugin : plugins) {
    if (plugin.kind == "folder" || is_trainer_library(plugin)) continue;
    // Without a digest, nothing says that the file can be trusted.
    const bool is_searched = has_extension && !plugin.sha256.empty();
    const std::string bytes =
        is_searched ? read_file(plugin.path, kMaxPluginBytes).value_or("") : std::string();
    for (const FoundPlugin& library : plugins) {
      if (!is_trainer_library(library)) continue;
      const bool is_named = std::ranges::any_of(library.knobs, [&](const recipes::Knob& knob) {
        return plugin.kind == "yaml" ? has_name(bytes, knob.name) : may_have_name(bytes, knob.name);
      });
      if (is_named || library.name == plugin.name) plugin.trainer_sha256 += library.sha256;
    }
  }
}

std::vector<FoundPlugin> find(const std::vector<std::filesystem::path>& folders,
                              const std::vector<std::string>& without, Code code,
                              const Loading& loading) {
  std::vector<FoundPlugin> plugins;
  // A policy and what it adds to the trainer have one name.
  std::set<std::pair<std::string, bool>> seen;
  for (const std::string& name : without)
    seen.insert({{name, false}, {name, true}});
  for (const std::filesystem::path& folder : folders) {
    const Result<std::filesystem::path> trusted = trusted_folder(folder);
    Result<std::vector<FoundPlugin>> files =
        trusted ? files_in(*trusted, code) : tl::unexpected(trusted.error());
    if (!files) {
      FoundPlugin& found = plugins.emplace_back();
      found.name = folder.string();
      found.kind = "folder";
      found.path = folder;
      refuse(found, files.error());
      continue;
    }
    for (FoundPlugin& found : *files) {
      if (!seen.emplace(found.name, found.kind == kTrainerKind).second) continue;
      found.state = FoundPlugin::State::ready;
      if (const auto examined = examine(found, *trusted, loading); !examined) {
        refuse(found, examined.error());
      } else if (!found.needs.empty()) {
        look_at_needs(found);
      }
      plugins.push_back(std::move(found));
    }
  }
  std::ranges::stable_sort(plugins, {}, &FoundPlugin::name);
  note_trainer_libraries(plugins);
  return plugins;
}

}  // namespace

std::vector<FoundPlugin> find_plugins(const std::vector<std::filesystem::path>& folders,
                                      const std::vector<std::string>& without,
                                      const Loading& loading) {
  return find(folders, without, Code::may_run, loading);
}

std::vector<FoundPlugin> find_trainer_plugins(const std::vector<std::filesystem::path>& folders,
                                              const std::vector<std::string>& without) {
  return find(folders, without, Code::stays_out, {});
}

}  // namespace autotuned::plugins
