// SPDX-License-Identifier: Apache-2.0
#include "daemon/guide/table_peek.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/result.hpp"
#include "base/table_file.hpp"
#include "base/text.hpp"
#include "daemon/guide/folder_listing.hpp"

namespace autotuned::daemon {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kExamples = 8;
constexpr std::size_t kMaxOutputs = 65'536;  // that a recipe takes
constexpr std::size_t kLongestShown = 40;    // characters of a cell in a message
// Whole numbers in a column with another name than `label` count as classes if each occurs this often, on average.
constexpr std::int64_t kOftenForClasses = 4;

bool is_picture_name(std::string_view cell) {
  const std::string ending = lower_ending(trimmed(cell));
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

std::optional<double> finite_number_in(std::string_view cell) {
  cell = trimmed(cell);
  if (cell.starts_with('+') && !cell.starts_with("+-")) cell.remove_prefix(1);
  double value = 0.0;
  const auto parsed = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  const bool is_whole = parsed.ec == std::errc() && parsed.ptr == cell.data() + cell.size();
  return is_whole && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

bool is_flag(std::string_view cell) {
  cell = trimmed(cell);
  return cell == "0" || cell == "1";
}

// An integer of at least 0, as labels are written.
bool is_index(std::string_view cell) {
  cell = trimmed(cell);
  return !cell.empty() && cell.size() < 10 &&
         cell.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string shown(std::string_view cell) {
  if (cell.size() <= kLongestShown) return "\"" + std::string(cell) + "\"";
  return "\"" + std::string(cell.substr(0, kLongestShown)) + "...\"";
}

std::vector<std::string> parts_of(std::string_view cell) {
  std::vector<std::string> parts;
  while (!cell.empty()) {
    const std::size_t end = std::min(cell.find_first_of(";|"), cell.size());
    if (const std::string_view part = trimmed(cell.substr(0, end)); !part.empty())
      parts.emplace_back(part);
    cell.remove_prefix(std::min(end + 1, cell.size()));
  }
  return parts;
}

std::string line_text(const TableRow& row) {
  return "line " + std::to_string(row.line);
}

// Takes the lines of a table one by one.
class Peek {
 public:
  explicit Peek(const fs::path& file) : file_(file) {}

  // An error ends the reading. It says what does not fit; its `what` is empty if the table is about something else.
  Result<void> take(const TableRow& row) {
    if (rows_ == 0 && !heading_ && !is_picture_name(row.cells[0])) return take_heading(row);
    if (!is_picture_name(row.cells[0])) return other_file(row);
    if (width_ == 0) width_ = row.cells.size();
    if (row.cells.size() != width_) {
      return refuse(line_text(row) + " has " + std::to_string(row.cells.size()) +
                    " cells, the lines before it have " + std::to_string(width_));
    }
    if (width_ < 2) return refuse("");
    const fs::path picture = file_.parent_path() / std::string(trimmed(row.cells[0]));
    if (examples_.size() < kExamples) {
      std::error_code ignored;
      if (!fs::is_regular_file(picture, ignored)) return missing_file(row);
      examples_.push_back(picture);
    }
    ++rows_;
    for (std::size_t i = 1; i < width_; ++i)
      take_cell(row, i);
    return {};
  }

  [[nodiscard]] bool is_about_pictures() const { return rows_ > 0; }
  [[nodiscard]] bool is_other() const { return is_other_; }

  TableLook finish(bool is_whole) {
    if (rows_ < 2) return {};
    TablePeek peek{.pictures = rows_, .is_whole = is_whole, .examples = std::move(examples_)};
    std::string problem = width_ == 2 ? judge_one(peek) : judge_many(peek);
    if (problem.empty() && peek.outputs > static_cast<std::int64_t>(kMaxOutputs))
      problem = "it has more than 65,536 different labels";
    if (!problem.empty()) return {.peek = {}, .problem = std::move(problem)};
    // One class is nothing to learn.
    if (peek.kind == TargetKind::classes && values_.size() < 2) return {};
    return {.peek = std::move(peek), .problem = {}};
  }

 private:
  // A cell and where it stands, for a message.
  struct Found {
    std::string line;
    std::size_t column = 0;  // from 1
    std::string cell;
  };

  static tl::unexpected<Error> refuse(std::string what) {
    return fail(ErrorKind::invalid, std::move(what));
  }

  Result<void> take_heading(const TableRow& row) {
    heading_ = row;
    width_ = row.cells.size();
    return {};
  }

  // In the first line under a heading: perhaps about something else. Later: a fault.
  Result<void> other_file(const TableRow& row) {
    if (rows_ > 0) {
      return refuse(line_text(row) + " names " + shown(row.cells[0]) +
                    ", which is no JPEG or PNG file");
    }
    for (const char* const ending : {".jpg", ".jpeg", ".png"}) {
      const std::string name = std::string(trimmed(row.cells[0])) + ending;
      std::error_code ignored;
      if (!fs::is_regular_file(file_.parent_path() / name, ignored)) continue;
      return refuse(line_text(row) + " names " + shown(row.cells[0]) + "; write " + name +
                    ", with the ending");
    }
    is_other_ = true;
    return refuse("");
  }

  Result<void> missing_file(const TableRow& row) {
    return refuse(line_text(row) + " names " + shown(row.cells[0]) +
                  ", which is not there: paths are relative to the folder of the table");
  }

  void take_cell(const TableRow& row, std::size_t i) {
    const std::string& cell = row.cells[i];
    const auto remember = [&](std::optional<Found>& found) {
      if (!found) found = Found{line_text(row), i + 1, cell};
    };
    const auto number = finite_number_in(cell);
    if (trimmed(cell).empty()) remember(empty_);
    if (!number) remember(no_number_);
    if (number && !is_index(cell)) remember(no_index_);
    if (!is_flag(cell)) has_flags_only_ = false;
    if (width_ != 2) return;
    has_lists_ = has_lists_ || cell.find_first_of(";|") != std::string::npos;
    for (std::string& part : parts_of(cell)) {
      if (parts_.size() <= kMaxOutputs) parts_.insert(std::move(part));
    }
    if (values_.size() <= kMaxOutputs) values_.emplace(trimmed(cell));
    // Another text than 1, for whoever reads the classes.
    has_padded_ =
        has_padded_ || (is_index(cell) && trimmed(cell).size() > 1 && trimmed(cell).front() == '0');
    if (is_index(cell)) {
      highest_ = std::max<std::int64_t>(highest_, std::stoll(std::string(trimmed(cell))));
    }
  }

  [[nodiscard]] std::string column_text(std::size_t column) const {
    std::string text = "column " + std::to_string(column);
    if (heading_) text += " (" + std::string(trimmed(heading_->cells[column - 1])) + ")";
    return text;
  }

  [[nodiscard]] std::string found_text(const Found& found) const {
    if (trimmed(found.cell).empty()) {
      return found.line + " has nothing in " + column_text(found.column);
    }
    return found.line + " has " + shown(found.cell) + " in " + column_text(found.column);
  }

  // The names of the columns, or what is wrong with them.
  std::string name_columns(TablePeek& peek) const {
    peek.outputs = static_cast<std::int64_t>(width_) - 1;
    if (!heading_) return {};
    for (std::size_t i = 1; i < width_; ++i) {
      const std::string name(trimmed(heading_->cells[i]));
      const std::string place = line_text(*heading_) + ", the heading, ";
      if (name.empty()) return place + "has no name for column " + std::to_string(i + 1);
      if (name.find_first_of("0123456789") == name.find_first_not_of("+-."))
        return place + "names column " + std::to_string(i + 1) + " " + shown(name) +
               ", which is read as a number: begin the name with a letter";
      if (std::ranges::find(peek.columns, name) != peek.columns.end())
        return place + "names two columns " + shown(name);
      peek.columns.push_back(name);
    }
    return {};
  }

  // With one cell behind the file.
  std::string judge_one(TablePeek& peek) {
    const bool is_named_label = heading_ && is_heading_of_labels(heading_->cells[1]);
    const bool is_named_tags =
        is_named_label && lower(trimmed(heading_->cells[1])).starts_with("tag");
    if (no_number_ && (has_lists_ || is_named_tags)) return judge_lists(peek);
    if (no_number_ && no_index_) {
      return found_text(*no_number_) + ", where other lines have numbers such as " +
             shown(no_index_->cell);
    }
    if (no_number_) {  // names, perhaps with integers among them
      if (empty_) return found_text(*empty_) + ", where a class is expected";
      return judge_classes(peek, std::ssize(values_));
    }
    if (no_index_) return judge_numbers(peek);
    if (!heading_ || is_named_label) return judge_classes(peek, classes_of_integers());
    const std::string column(trimmed(heading_->cells[1]));
    if (std::ssize(values_) * kOftenForClasses > rows_) {
      peek.note = "the whole numbers in the column " + column +
                  " are numbers to predict: name the column label if they are classes";
      return judge_numbers(peek);
    }
    peek.note = "the whole numbers in the column " + column +
                " are classes: write type: image_targets if they are numbers to predict";
    return judge_classes(peek, classes_of_integers());
  }

  // With a zero in front of one of them all are names.
  [[nodiscard]] std::int64_t classes_of_integers() const {
    return has_padded_ ? std::ssize(values_) : highest_ + 1;
  }

  std::string judge_classes(TablePeek& peek, std::int64_t classes) {
    if (heading_ && !is_heading_of_files(heading_->cells[0])) {
      return line_text(*heading_) + " begins with " + shown(heading_->cells[0]) +
             ": write file,label there, or leave the heading out";
    }
    peek.kind = TargetKind::classes;
    peek.outputs = classes;
    if (no_number_ || has_padded_) peek.labels = values_;
    return {};
  }

  std::string judge_lists(TablePeek& peek) {
    if (heading_ && !is_heading_of_labels(heading_->cells[1])) {
      return line_text(*heading_) + " has " + shown(heading_->cells[1]) +
             " above the tags: write file,tags there, or leave the heading out";
    }
    peek.kind = TargetKind::tags;
    peek.labels = parts_;
    peek.outputs = std::ssize(parts_);
    return peek.outputs > 0 ? std::string() : "no picture has a tag";
  }

  std::string judge_numbers(TablePeek& peek) {
    peek.kind = TargetKind::numbers;
    return name_columns(peek);
  }

  // With several cells behind the file.
  std::string judge_many(TablePeek& peek) {
    if (no_number_) {
      return found_text(*no_number_) +
             "; behind the file every column must have numbers, or 0 and 1 for tags: delete this "
             "column, or write numbers there";
    }
    peek.kind = has_flags_only_ ? TargetKind::tags : TargetKind::numbers;
    return name_columns(peek);
  }

  const fs::path& file_;
  std::optional<TableRow> heading_;
  std::size_t width_ = 0;  // cells of each line; 0: not known
  std::int64_t rows_ = 0;  // of pictures
  bool is_other_ = false;  // the first line names something else
  std::vector<fs::path> examples_;
  std::optional<Found> empty_;
  std::optional<Found> no_number_;
  std::optional<Found> no_index_;  // a number that is no integer of at least 0
  bool has_flags_only_ = true;
  bool has_lists_ = false;  // a cell with several names
  // Only for tables with one cell after the file:
  std::set<std::string> values_;
  std::set<std::string> parts_;
  std::int64_t highest_ = -1;  // of the integers
  bool has_padded_ = false;    // an integer such as 01
};

// The bytes up to the last line end outside of quoted cells. Quotes in other places are mistakes, which the reader
// reports.
std::size_t whole_lines_of(const fs::path& file, std::string_view text) {
  const char separator = lower_case(file.extension().string()) == ".tsv" ? '\t' : ',';
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  std::size_t end = 0;
  bool is_quoted = false;
  bool begins_cell = true;
  for (std::size_t at = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
       at < text.size(); ++at) {
    if (is_quoted) {
      if (text[at] != '"') continue;
      const bool is_doubled = at + 1 < text.size() && text[at + 1] == '"';
      if (is_doubled) ++at;
      is_quoted = is_doubled;
      continue;
    }
    is_quoted = begins_cell && text[at] == '"';
    begins_cell = text[at] == separator || text[at] == '\n';
    if (text[at] == '\n') end = at + 1;
  }
  return end;
}

}  // namespace

TableLook look_at_table(const fs::path& file, std::size_t most_bytes) {
  std::string text = first_bytes_of(file, most_bytes);
  const bool is_whole = text.size() < most_bytes;
  // The last line may be cut.
  if (!is_whole) text.resize(whole_lines_of(file, text));
  Peek peek(file);
  const auto read = for_each_row(file, text, [&peek](TableRow& row) { return peek.take(row); });
  if (read) return peek.finish(is_whole);
  // A fault of the form has a place, and means nothing in a table about something else.
  const std::string& place = read.error().where;
  if (place.empty()) return {.peek = {}, .problem = read.error().what, .is_other = peek.is_other()};
  if (!peek.is_about_pictures()) return {};
  return {.peek = {},
          .problem = "line " + place.substr(place.rfind(':') + 1) + ": " + read.error().what};
}

std::string misfit(const TablePeek& training, const TablePeek& test) {
  if (test.kind != training.kind) return "it has other targets";
  const bool have_names = !training.columns.empty() && !test.columns.empty();
  if (have_names && training.columns != test.columns) return "it has other columns";
  const bool has_columns = training.labels.empty() && training.kind != TargetKind::classes;
  if (has_columns && training.outputs != test.outputs) return "it has another number of columns";
  for (const std::string& label : test.labels)
    if (!training.labels.contains(label)) return "its " + label + " is none of the training's";
  return {};
}

}  // namespace autotuned::daemon
