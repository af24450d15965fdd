// SPDX-License-Identifier: Apache-2.0
// Small data of each kind that `autotuned init` knows, as they lie in the folders of users.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "tests/base/temporary_folder.hpp"
#include "tests/places.hpp"
#include "tests/trainer/input/datasets/npy_fixture.hpp"
#include "tests/trainer/input/datasets/pictures/tar_fixture.hpp"

namespace autotuned::tests {

inline const std::vector<std::string>& kinds_of_data() {
  static const std::vector<std::string> kKinds = {
      "classes", "parts",   "plain", "masks", "table", "numbers", "tags",   "tag_lists",
      "idx",     "cifar10", "npy",   "tar",   "text",  "tokens",  "nothing"};
  return kKinds;
}

// A JPEG file of 37 x 51 pixels.
inline std::string small_picture() {
  std::ifstream input(source_folder() / "tests/trainer/input/data/444_37x51.jpg", std::ios::binary);
  return {std::istreambuf_iterator<char>(input), {}};
}

// A mask of it, with two classes.
inline std::string small_mask() {
  std::ifstream input(source_folder() / "tests/trainer/input/data/classes_37x51.png",
                      std::ios::binary);
  return {std::istreambuf_iterator<char>(input), {}};
}

// The header of an IDX file of bytes, plain.
inline std::string idx_begin(const std::vector<int>& lengths) {
  std::string text{'\0', '\0', '\x08', static_cast<char>(lengths.size())};
  for (const int length : lengths)
    text += {'\0', '\0', static_cast<char>(length / 256), static_cast<char>(length % 256)};
  return text;
}

// Below `base` of a folder ("" or "data/").
inline void write_data(const TemporaryFolder& folder, const std::string& base,
                       const std::string& kind) {
  const auto pictures = [&](const std::string& below, int count) {
    for (int i = 0; i < count; ++i)
      folder.write(base + below + std::to_string(i) + (i % 5 == 0 ? ".JPG" : ".jpg"),
                   small_picture());
  };
  if (kind == "classes" || kind == "parts") {
    const std::string part = kind == "parts" ? "train/" : "";
    for (const char* name : {"cat", "dog", "it's [a] bird"})
      pictures(part + name + "/", 20);
    if (kind == "parts") {
      pictures("val/cat/", 4);
      pictures("val/dog/", 4);
    }
  } else if (kind == "plain") {
    pictures("", 12);
  } else if (kind == "masks") {
    pictures("images/", 12);
    for (int i = 0; i < 12; ++i)
      folder.write(base + "masks/" + std::to_string(i) + ".png", small_mask());
  } else if (kind == "table") {
    pictures("all/", 12);
    std::string rows = "file,label\n";
    for (int i = 0; i < 12; ++i) {
      rows += "all/" + std::to_string(i) + (i % 5 == 0 ? ".JPG," : ".jpg,") +
              (i % 2 == 0 ? "even\n" : "odd\n");
    }
    folder.write(base + "table.csv", rows);
  } else if (kind == "numbers" || kind == "tags" || kind == "tag_lists") {
    pictures("all/", 12);
    const bool has_tabs = kind == "numbers";
    std::string rows =
        has_tabs ? "file\tage\theight\n" : (kind == "tags" ? "file,cat,dog,emu\n" : "file,tags\n");
    for (int i = 0; i < 12; ++i) {
      rows += "all/" + std::to_string(i) + (i % 5 == 0 ? ".JPG" : ".jpg");
      if (has_tabs) rows += "\t" + std::to_string(i) + "\t1." + std::to_string(i) + "\n";
      if (kind == "tags") rows += i % 2 == 0 ? ",1,0,1\n" : ",0,0,1\n";
      if (kind == "tag_lists") rows += i % 2 == 0 ? ",cat|dog\n" : ",\n";
    }
    folder.write(base + (has_tabs ? "table.tsv" : "table.csv"), rows);
  } else if (kind == "idx") {
    for (const auto& [name, count] : {std::pair{"train", 64}, std::pair{"t10k", 16}}) {
      const auto bytes = static_cast<std::size_t>(count);
      folder.write(base + name + "-images-idx3-ubyte",
                   idx_begin({count, 8, 8}) + std::string(bytes * 64, '\x40'));
      folder.write(base + name + "-labels-idx1-ubyte",
                   idx_begin({count}) + std::string(bytes, '\x03'));
    }
  } else if (kind == "cifar10") {
    folder.write(base + "cifar-10-batches-bin/data_batch_1.bin",
                 std::string(std::size_t{64} * 3073, '\x05'));
    folder.write(base + "cifar-10-batches-bin/test_batch.bin",
                 std::string(std::size_t{16} * 3073, '\x05'));
  } else if (kind == "npy") {
    folder.write(base + "x_train.npy", input::npy_file("|u1", "(64, 12, 10, 3)",
                                                       std::string(std::size_t{64} * 360, '\x40')));
    folder.write(
        base + "y_train.npy",
        input::npy_file("<i8", "(64,)", input::bytes_of_numbers(std::vector<std::int64_t>(64, 6))));
  } else if (kind == "tar") {
    for (const char* name : {"train-0.tar", "train-1.tar", "val-0.tar"}) {
      std::string shard;
      for (int i = 0; i < 20; ++i) {
        shard += input::tar_member(std::to_string(i) + ".jpg", small_picture());
        shard += input::tar_member(std::to_string(i) + ".cls", std::to_string(i % 3));
      }
      folder.write(base + name, shard + input::tar_end());
    }
  } else if (kind == "text") {
    for (const char* name : {"one.txt", "two.txt"})
      folder.write(base + name, std::string(40'000, 'a'));
  } else if (kind == "tokens") {
    for (const auto& [name, tokens] : {std::pair{"train.bin", 20'000}, std::pair{"val.bin", 2'000}})
      folder.write(base + name, input::bytes_of_numbers(std::vector<std::uint16_t>(
                                    static_cast<std::size_t>(tokens), 7)));
  } else {
    folder.write(base + "notes.txt", "nothing to train on\n");
  }
}

}  // namespace autotuned::tests
