// SPDX-License-Identifier: Apache-2.0
#include "daemon/guide/file_advice.hpp"

#include <gmock/gmock.h>

#include <string>
#include <utility>

namespace autotuned::daemon {
namespace {

using testing::HasSubstr;

std::string advice_for(const std::string& file) {
  return file_where_folder_is_expected(file).message();
}

TEST(FileAdvice, NamesWhatTakesTheFile) {
  EXPECT_EQ(advice_for("my data/table.csv"),
            "my data/table.csv: is a table, and `init` takes a folder or a text; name the folder "
            "that holds it and its pictures: `autotuned init 'my data'`");
  EXPECT_EQ(advice_for("TABLE.TSV"),
            "TABLE.TSV: is a table, and `init` takes a folder or a text; name the folder that "
            "holds it and its pictures: `autotuned init`");
  const std::pair<const char*, const char*> cases[] = {
      {"cats/1.JPG", "put the pictures of each class into a folder of its own"},
      {"images.npy", "put images.npy beside labels.npy"},
      {"all.npz", "numpy.save"},
      {"a/train-0.tar", "`autotuned init a`"},
      {"photos.zip", "unpack it"},
      {"photos.tar.gz", "unpack it"},
      {"mnist/train-images-idx3-ubyte.gz", "`autotuned init mnist`"},
      {"mine.yaml", "`autotuned run mine.yaml` trains it"},
      {"train.py", "`autotuned run train.py` tunes it"},
      {"x/labels", "name the folder with the data: `autotuned init x`"},
  };
  for (const auto& [file, advice] : cases)
    EXPECT_THAT(advice_for(file), HasSubstr(advice));
}

}  // namespace
}  // namespace autotuned::daemon
