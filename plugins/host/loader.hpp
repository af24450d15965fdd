// SPDX-License-Identifier: Apache-2.0
// Finding, refusing and loading plugins. The only file pair that knows Boost.DLL.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"
#include "recipes/knobs.hpp"

namespace autotuned::plugins {

// A loaded policy plugin or a YAML plugin. Libraries are never unloaded. One thread at a time.
class Policy {
 public:
  Policy() = default;
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;
  virtual ~Policy() = default;

  [[nodiscard]] virtual const std::string& name() const = 0;
  // The answer to a situation (sdk/README.md), a JSON object. ErrorKind::invalid names the plugin when it
  // returns nothing or no JSON, throws or reports an error.
  virtual Result<Json> propose(const Json& situation) = 0;
};

// One file in a plugin folder, whether or not it can be used.
struct FoundPlugin {
  // unsupported: nothing is wrong with it, but this machine lacks what it needs.
  enum class State { ready, refused, unsupported };
  State state = State::refused;
  std::string name;
  std::string version;
  std::string summary;
  // "policy", "yaml" or "folder"; of a libNAME_trainer.so "extension" or "workload", and "trainer" when
  // it was refused before that was known.
  std::string kind;
  std::filesystem::path path;  // canonical
  std::string sha256;          // of the file
  // Of a plugin that proposes: of the extensions whose knobs its file names, in whatever folder they are found, and of
  // the libNAME_trainer.so of its own name, one after the other; empty: there are none. A plugin that makes the name of
  // a knob up while it runs is tied to the library of its own name alone.
  std::string trainer_sha256;
  std::string refusal;  // names what the file is, or the machine lacks, and what was expected
  std::shared_ptr<Policy> policy;  // set when ready, except for plugins that only the trainer loads
  std::vector<recipes::Knob> knobs;  // of an extension
  std::vector<std::string> needs;    // of the machine (needs.hpp)

  [[nodiscard]] Json to_json() const;
  // Tells whether a plugin was built again since it was asked: a digest of its file and of the trainer
  // libraries that its proposals turn on.
  [[nodiscard]] std::string build_digest() const;
};

[[nodiscard]] std::string_view to_string(FoundPlugin::State state);

// Folders in the order of precedence: `extra` (--plugin-dir), AUTOTUNED_PLUGIN_PATH,
// $XDG_DATA_HOME/autotuned/plugins where it exists, `built_in`.
[[nodiscard]] std::vector<std::filesystem::path> plugin_folders(
    const std::vector<std::filesystem::path>& extra, const std::filesystem::path& built_in);

// The names of the plugins in these folders, each once and sorted, whether or not they can be used. No file
// is opened. Folders that cannot be trusted or read add none.
[[nodiscard]] std::vector<std::string> plugin_names(
    const std::vector<std::filesystem::path>& folders);

// Examines every lib*.so and *.yaml of the folders and loads those that can be trusted. Returns them sorted by name. It
// does not load lib*_trainer.so, which only the trainer loads: their metadata is read from the file. A name found
// earlier hides a later one, also when the earlier file is refused: a broken replacement must not become the original
// in silence. A folder that cannot be trusted or read is one refused entry of kind "folder".
//
// Before a file is loaded: its path is made canonical; it must be a regular file, owned by this user or root, and not
// writable by others; so must its folder. Then its alias and descriptor are read from the file.
// The constructors of a library that is refused for one of these reasons never run. Two faults show only when a library is
// loaded: symbols that other libraries lack, and a descriptor that its own code changes. `without` names plugins
// that are left out and not loaded. `loading` hears the name of each library right before its code runs for
// the first time, so that a crash in it can be attributed to it.
[[nodiscard]] std::vector<FoundPlugin> find_plugins(
    const std::vector<std::filesystem::path>& folders, const std::vector<std::string>& without,
    const std::function<void(const std::string& name)>& loading = {});

// Like find_plugins(), but only for extensions and workloads (libNAME_trainer.so). Runs no code of any plugin.
[[nodiscard]] std::vector<FoundPlugin> find_trainer_plugins(
    const std::vector<std::filesystem::path>& folders, const std::vector<std::string>& without);

// Loads the library and returns the address that its alias holds. It points into the library, which stays loaded.
[[nodiscard]] Result<const void*> load_alias(const std::filesystem::path& file,
                                             const std::string& alias);

}  // namespace autotuned::plugins
