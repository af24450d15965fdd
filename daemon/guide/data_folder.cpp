// SPDX-License-Identifier: Apache-2.0
#include "daemon/guide/data_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/file_pattern.hpp"
#include "base/json.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"
#include "daemon/guide/folder_listing.hpp"
#include "daemon/guide/label_peek.hpp"
#include "daemon/guide/mask_folders.hpp"
#include "daemon/guide/picture_header.hpp"
#include "daemon/guide/text_files.hpp"

namespace autotuned::daemon {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kColumnsNamed = 4;

struct Place {
  fs::path folder;
  fs::path from;            // the folder of the recipe
  std::int64_t names_left;  // names that may still be looked at
  std::int64_t most;        // how much of tables, labels and shards is read follows from it
};

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool is_picture(std::string_view name) {
  const std::string ending = lower_ending(name);
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

bool is_other_picture(std::string_view name) {
  static const std::set<std::string, std::less<>> kEndings = {".bmp", ".gif",  ".heic",
                                                              ".tif", ".tiff", ".webp"};
  return kEndings.contains(lower_ending(name));
}

std::string path_text(const Place& place, const fs::path& file) {
  return yaml_text(as_named_from(file, place.from).string());
}

// One pattern, or a list of them.
std::string patterns_text(const std::vector<std::string>& patterns) {
  if (patterns.size() == 1) return yaml_text(patterns.front());
  std::string text;
  for (const std::string& pattern : patterns)
    text += (text.empty() ? "" : ", ") + yaml_text(pattern);
  return "[" + text + "]";
}

// The pictures below a folder of classes, or in a folder.
struct Pictures {
  std::vector<std::string> classes;
  std::set<std::string>
      endings;  // as they are written: patterns know large letters from small ones
  std::int64_t count = 0;
  std::int64_t others = 0;  // in forms that are not read
  std::vector<fs::path> examples;
  std::vector<std::string> hidden;   // pictures, and folders beside those of the classes
  std::vector<std::string> special;  // with the names of pictures, but no files

  // With so many examples of this folder, to look at.
  void take(const fs::path& folder, const FolderListing& listing, std::size_t most_examples) {
    const std::size_t enough = std::min<std::size_t>(examples.size() + most_examples, 32);
    for (const std::string& name : listing.files) {
      if (is_other_picture(name)) ++others;
      if (!is_picture(name)) continue;
      ++count;
      endings.insert(name.substr(name.rfind('.')));
      if (examples.size() < enough) examples.push_back(folder / name);
    }
    std::ranges::copy_if(listing.hidden, std::back_inserter(hidden), is_picture);
    std::ranges::copy_if(listing.special, std::back_inserter(special), is_picture);
  }
};

Pictures pictures_by_class(const fs::path& folder, const FolderListing& listing,
                           std::int64_t& names_left) {
  Pictures pictures;
  for (const std::string& name : listing.folders) {
    const std::int64_t before = pictures.count;
    pictures.take(folder / name, list_folder(folder / name, names_left), 2);
    if (pictures.count > before) pictures.classes.push_back(name);
  }
  std::ranges::copy_if(listing.hidden, std::back_inserter(pictures.hidden),
                       [&folder](const std::string& name) {
                         std::error_code ignored;
                         return fs::is_directory(folder / name, ignored);
                       });
  return pictures;
}

std::string files_of(const Place& place, const fs::path& folder, const Pictures& pictures) {
  const std::string named = as_named_from(folder, place.from).string();
  const std::string base = named == "." ? std::string() : as_pattern(named) + "/";
  std::vector<std::string> patterns;
  for (const std::string& ending : pictures.endings)
    patterns.push_back(base + (pictures.classes.empty() ? "*" : "*/*") + ending);
  return "files: " + patterns_text(patterns);
}

int median_side(const Pictures& pictures) {
  std::vector<int> sides;
  for (const fs::path& file : pictures.examples) {
    const int side = shorter_side(first_bytes_of(file, kPictureHeaderBytes));
    if (side > 0) sides.push_back(side);
  }
  if (sides.empty()) return 0;
  std::ranges::sort(sides);
  return sides[sides.size() / 2];
}

void note_left_out(const Pictures& pictures, DataFolder& found) {
  if (pictures.others > 0) {
    found.notes.push_back("left out: " + format_counted(pictures.others, "picture") +
                          " in other forms than JPEG and PNG");
  }
  if (!pictures.hidden.empty()) {
    found.notes.push_back(
        "left out: " + format_counted(std::ssize(pictures.hidden), "hidden name") + ", such as " +
        pictures.hidden.front());
  }
  if (!pictures.special.empty()) {
    found.notes.push_back("left out: " + format_counted(std::ssize(pictures.special), "name") +
                          " of no file, such as " + pictures.special.front() +
                          ": a link that leads nowhere, or a pipe");
  }
}

// The test pictures beside the training pictures, unless they have classes of their own.
void add_validation(const Place& place, const fs::path& folder, const Pictures& training,
                    const Pictures& validation, DataFolder& found) {
  const std::string name = folder.filename().string();
  for (const std::string& one : validation.classes) {
    if (std::ranges::binary_search(training.classes, one)) continue;
    found.notes.push_back("the folder " + name + " is left out: its class " + one +
                          " is none of the training's");
    return;
  }
  found.test_data = "type: image_files, " + files_of(place, folder, validation);
  found.found += ", " + format_count(validation.count) + " more in " + name;
}

// DIR/CLASS/*.jpg, or DIR/train/CLASS/*.jpg with DIR/val/CLASS/*.jpg beside it.
std::optional<DataFolder> class_folders(Place& place, const FolderListing& listing) {
  static constexpr std::array<std::string_view, 2> kTraining = {"train", "training"};
  static constexpr std::array<std::string_view, 5> kTests = {"val", "valid", "validation", "test",
                                                             "testing"};
  const auto named = [&listing](auto& names) -> std::optional<std::string> {
    for (const std::string_view name : names) {
      const auto found = std::ranges::find_if(
          listing.folders, [&](const std::string& folder) { return lower(folder) == name; });
      if (found != listing.folders.end()) return *found;
    }
    return std::nullopt;
  };
  fs::path folder = place.folder;
  Pictures pictures;
  const auto training = named(kTraining);
  if (training) {
    folder /= *training;
    pictures = pictures_by_class(folder, list_folder(folder, place.names_left), place.names_left);
  }
  const bool has_parts = pictures.classes.size() >= 2;
  if (!has_parts) {
    folder = place.folder;
    pictures = pictures_by_class(folder, listing, place.names_left);
  }
  if (pictures.classes.size() < 2) return std::nullopt;
  DataFolder found{.samples = Samples::pictures};
  found.count = pictures.count;
  found.classes = std::ssize(pictures.classes);
  found.found =
      format_counted(found.count, "picture") + " in " + format_count(found.classes) + " classes";
  found.shorter_side = median_side(pictures);
  found.data = "type: image_files, " + files_of(place, folder, pictures);
  note_left_out(pictures, found);
  if (const auto tests = named(kTests); has_parts && tests) {
    const fs::path beside = place.folder / *tests;
    const Pictures validation =
        pictures_by_class(beside, list_folder(beside, place.names_left), place.names_left);
    if (validation.count > 0) add_validation(place, beside, pictures, validation, found);
  }
  return found;
}

// *.jpg without classes: good for measuring only.
std::optional<DataFolder> plain_pictures(Place& place, const FolderListing& listing) {
  Pictures pictures;
  pictures.take(place.folder, listing, 8);
  fs::path folder = place.folder;
  if (pictures.count == 0 && listing.folders.size() == 1) {
    folder /= listing.folders.front();
    pictures.take(folder, list_folder(folder, place.names_left), 8);
  }
  if (pictures.count == 0) return std::nullopt;
  DataFolder found{.samples = Samples::pictures};
  found.has_labels = false;
  found.count = pictures.count;
  found.found = format_counted(found.count, "picture") + " without classes";
  found.shorter_side = median_side(pictures);
  found.data = "type: image_files, " + files_of(place, folder, pictures) + ", labels: random";
  note_left_out(pictures, found);
  found.notes.emplace_back(
      "labels are drawn at random, so only the speed means something: put the pictures of each "
      "class into a folder of its own to train on them");
  return found;
}

struct NamedTable {
  std::string name;
  TablePeek peek;
};

std::string described(const NamedTable& table) {
  const TablePeek& peek = table.peek;
  std::string text = (peek.is_whole ? "" : "more than ") + format_counted(peek.pictures, "picture");
  if (peek.kind != TargetKind::classes) {
    const char* const what = peek.kind == TargetKind::numbers ? "number" : "tag";
    text += " with " + format_counted(peek.outputs, what);
    if (!peek.columns.empty()) text += " (" + format_names(peek.columns, kColumnsNamed) + ")";
  }
  return text + " in the table " + table.name;
}

std::string data_of(const Place& place, const NamedTable& table) {
  const char* const type = table.peek.kind == TargetKind::numbers ? "image_targets"
                           : table.peek.kind == TargetKind::tags  ? "image_tags"
                                                                  : "image_index";
  return std::string("type: ") + type + ", index: " + path_text(place, place.folder / table.name);
}

// Tables of pictures with a class, numbers or tags for each, the first of which are there.
// `others` gets the names of tables about something else.
std::optional<DataFolder> tables(Place& place, const FolderListing& listing, DataFolder& nothing,
                                 std::vector<std::string>& others) {
  const auto most_bytes = static_cast<std::size_t>(64 * place.most);
  std::vector<NamedTable> training;
  std::vector<NamedTable> tests;
  for (const std::string& name : listing.files) {
    if (lower_ending(name) != ".csv" && lower_ending(name) != ".tsv") continue;
    TableLook look = look_at_table(place.folder / name, most_bytes);
    if (look.is_other) others.push_back(name);
    if (!look.problem.empty())
      nothing.notes.push_back("the table " + name + " is left out: " + look.problem);
    if (!look.peek) continue;
    const bool is_test = lower(name).starts_with("val") || lower(name).starts_with("test");
    (is_test ? tests : training).push_back({name, *std::move(look.peek)});
  }
  if (training.empty()) std::swap(training, tests);
  if (training.empty()) return std::nullopt;
  const NamedTable& table = training.front();
  DataFolder found{.samples = Samples::pictures};
  found.targets = table.peek.kind;
  found.count = table.peek.pictures;
  found.classes = table.peek.outputs;
  found.columns = table.peek.columns;
  found.found = described(table);
  Pictures examples;
  examples.examples = table.peek.examples;
  found.shorter_side = median_side(examples);
  found.data = data_of(place, table);
  if (!table.peek.note.empty()) found.notes.push_back(table.peek.note);
  for (std::size_t i = 1; i < training.size(); ++i)
    found.notes.push_back("the table " + training[i].name + " is left out: one is enough");
  for (const NamedTable& test : tests) {
    const std::string reason =
        !found.test_data.empty() ? std::string("one is enough") : misfit(table.peek, test.peek);
    if (!reason.empty()) {
      found.notes.push_back("the table " + test.name + " is left out: " + reason);
      continue;
    }
    found.test_data = data_of(place, test);
    found.found += ", " + format_count(test.peek.pictures) + " more in " + test.name;
  }
  if (table.peek.kind == TargetKind::classes) return found;
  if (const auto folders = class_folders(place, listing)) {
    found.notes.push_back("the folders could be classes (" + folders->found +
                          "): for these, move the table " + table.name + " elsewhere");
  }
  return found;
}

// The files of MNIST and its relatives: train-images-idx3-ubyte.gz beside train-labels-idx1-ubyte.gz.
std::optional<DataFolder> idx(const Place& place, const FolderListing& listing) {
  const auto replaced = [](std::string name, std::string_view old, std::string_view by) {
    if (const std::size_t at = name.find(old); at != std::string::npos)
      name.replace(at, old.size(), by);
    return name;
  };
  DataFolder found{.samples = Samples::arrays, .found = "images and labels in IDX files"};
  for (const std::string& name : listing.files) {
    const std::string labels = replaced(replaced(name, "images", "labels"), "idx3", "idx1");
    if (!has(name, "idx3") || !std::ranges::binary_search(listing.files, labels)) continue;
    const std::string text = "type: idx, images: " + path_text(place, place.folder / name) +
                             ", labels: " + path_text(place, place.folder / labels);
    const bool is_test = name.starts_with("t10k") || has(lower(name), "test");
    (is_test ? found.test_data : found.data) = text;
  }
  if (found.data.empty()) return std::nullopt;
  if (!found.test_data.empty()) found.found += ", with those for tests";
  return found;
}

// The binary version of CIFAR-10, in the folder or one below.
std::optional<DataFolder> cifar10(Place& place, const FolderListing& listing, DataFolder& nothing) {
  constexpr std::int64_t kImagesInAFile = 10'000;
  const auto look = [&](const fs::path& folder,
                        const FolderListing& here) -> std::optional<DataFolder> {
    const auto batches = std::ranges::count_if(here.files, [](const std::string& name) {
      return name.starts_with("data_batch_") && name.ends_with(".bin");
    });
    if (batches == 0) {
      if (std::ranges::binary_search(here.files, std::string("data_batch_1"))) {
        nothing.notes.emplace_back(
            "this is the Python version of CIFAR-10, whose pickles are never opened: unpack the "
            "binary version (data_batch_1.bin)");
      }
      return std::nullopt;
    }
    const fs::path named = as_named_from(folder, place.from);
    const std::string base = named == "." ? std::string() : as_pattern(named.string()) + "/";
    DataFolder found{.samples = Samples::arrays};
    found.count = kImagesInAFile * batches;
    found.found = "CIFAR-10 in its binary version";
    found.data = "type: cifar10, files: " + yaml_text(base + "data_batch_*.bin");
    if (std::ranges::binary_search(here.files, std::string("test_batch.bin")))
      found.test_data = "type: cifar10, files: " + yaml_text(base + "test_batch.bin");
    return found;
  };
  if (auto found = look(place.folder, listing)) return found;
  const std::string usual = "cifar-10-batches-bin";
  if (!std::ranges::binary_search(listing.folders, usual)) return std::nullopt;
  return look(place.folder / usual, list_folder(place.folder / usual, place.names_left));
}

// images.npy beside labels.npy, x_train.npy beside y_train.npy, with the tests beside both.
std::optional<DataFolder> arrays(const Place& place, const FolderListing& listing,
                                 DataFolder& nothing) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kPartners = {{
      {"images", "labels"},
      {"image", "label"},
      {"data", "labels"},
      {"x", "y"},
      {"X", "y"},
      {"X", "Y"},
  }};
  const auto partner = [&listing](const std::string& name) -> std::optional<std::string> {
    for (const auto& [images, labels] : kPartners) {
      const std::size_t at = name.find(images);
      if (at == std::string::npos) continue;
      std::string other = name;
      other.replace(at, images.size(), labels);
      if (other != name && std::ranges::binary_search(listing.files, other)) return other;
    }
    return std::nullopt;
  };
  std::optional<DataFolder> found;
  for (const std::string& name : listing.files) {
    if (!name.ends_with(".npy")) continue;
    const auto labels = partner(name);
    if (!labels) continue;
    const auto form = array_form_of(place.folder / name);
    if (!form || form->shape.size() < 3 || form->shape.size() > 4) continue;
    const bool is_byte = form->kind == 'u' && form->item_bytes == 1;
    if (!is_byte && (form->kind != 'f' || form->item_bytes != 4)) {
      nothing.notes.push_back(name + " is left out: save bytes (uint8) or 32-bit floats");
      continue;
    }
    const auto is_channels = [](std::int64_t length) { return length <= 4; };
    const bool is_last =
        form->shape.size() == 4 && is_channels(form->shape[3]) && !is_channels(form->shape[1]);
    const std::string text = "type: npy, images: " + path_text(place, place.folder / name) +
                             ", labels: " + path_text(place, place.folder / *labels) +
                             (is_last ? ", layout: nhwc" : "");
    const std::string lowered = lower(name);
    if (has(lowered, "test") || has(lowered, "val")) {
      (found ? found->test_data : nothing.test_data) = text;
    } else if (!found) {
      found = DataFolder{.samples = Samples::arrays};
      found->count = form->shape[0];
      found->found = format_counted(found->count, "image") + " in " + name;
      found->data = text;
      found->are_bytes = is_byte;
      found->classes = classes_in_array(place.folder / *labels, 10 * place.most).value_or(10);
    }
  }
  // Names are sorted, so those for tests may come first.
  if (found && found->test_data.empty()) found->test_data = nothing.test_data;
  return found;
}

// train-*.tar with val-*.tar, or *.tar.
std::optional<DataFolder> shards(const Place& place, const FolderListing& listing) {
  std::vector<std::string> training;
  std::vector<std::string> tests;
  for (const std::string& name : listing.files) {
    if (!name.ends_with(".tar")) continue;
    const bool is_test = name.starts_with("val") || name.starts_with("test");
    (is_test ? tests : training).push_back(name);
  }
  if (training.empty()) return std::nullopt;
  const auto list = [&place](const std::vector<std::string>& names) {
    // A pattern of the beginning that all have in common: a list of a thousand names helps nobody.
    std::string common = names.front().substr(0, names.front().size() - 4);
    for (const std::string& name : names) {
      const auto differs = std::ranges::mismatch(common, name).in1;
      common.erase(differs, common.end());
    }
    const std::string base = as_pattern(as_named_from(place.folder, place.from).string());
    return "type: tar, files: " +
           yaml_text((base == "." ? std::string() : base + "/") + as_pattern(common) + "*.tar");
  };
  DataFolder found{.samples = Samples::pictures};
  found.found = format_counted(std::ssize(training), "tar shard");
  found.classes =
      classes_in_shard(place.folder / training.front(), 1000 * place.most).value_or(1000);
  // The pattern of the training would take the tests, too, where they have no beginning in common.
  const bool is_told_apart = tests.empty() || training.front().starts_with("train");
  found.data = list(training);
  if (!tests.empty() && is_told_apart) found.test_data = list(tests);
  if (!is_told_apart) return std::nullopt;
  return found;
}

// Where a folder holds nothing else.
std::string other_tables_note(const std::vector<std::string>& names) {
  return "left out: " + format_names(names, 3) +
         ", whose first column names no pictures; no recipe trains on numbers alone, but a script "
         "of your own can";
}

}  // namespace

std::string yaml_text(const std::string& text) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' ||
           c == '.' || c == '_' || c == '-';
  };
  const bool begins_plainly = !text.empty() && (text.front() == '/' || text.front() == '.' ||
                                                (text.front() >= 'A' && text.front() <= 'z'));
  if (begins_plainly && std::ranges::all_of(text, is_plain) && has(text, ".")) return text;
  // JSON is YAML.
  return printable_quoted(to_line(Json(text)));
}

Result<DataFolder> look_at_data(const fs::path& folder, const fs::path& from,
                                std::int64_t most_names) {
  Place place{.folder = folder, .from = from, .names_left = most_names, .most = most_names};
  FolderListing listing = list_folder(folder, place.names_left);
  if (listing.failure) {
    return tl::unexpected(
        system_error(listing.failure.value(), "cannot read the folder", folder.string()));
  }
  DataFolder nothing;
  std::erase_if(listing.folders, [&](const std::string& name) {
    if (!holds_predictions(folder / name)) return false;
    nothing.notes.push_back("the folder " + name +
                            " is left out: `predict` wrote it (see .autotuned-predicted there)");
    return true;
  });
  std::optional<DataFolder> found = cifar10(place, listing, nothing);
  if (!found) found = idx(place, listing);
  std::vector<std::string> other_tables;
  if (!found) found = tables(place, listing, nothing, other_tables);
  if (!found) found = folders_of_masks(folder, from, listing, place.names_left);
  if (!found) found = class_folders(place, listing);
  if (!found) found = arrays(place, listing, nothing);
  if (!found) found = shards(place, listing);
  if (!found) found = plain_pictures(place, listing);
  if (!found) found = texts_in(folder, listing, from);
  nothing.test_data.clear();
  if (!found) {
    if (!other_tables.empty()) nothing.notes.push_back(other_tables_note(other_tables));
    return nothing;
  }
  found->notes.insert(found->notes.end(), nothing.notes.begin(), nothing.notes.end());
  if (place.names_left <= 0) found->found = "more than " + found->found;
  return *std::move(found);
}

}  // namespace autotuned::daemon
