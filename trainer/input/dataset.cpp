// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/dataset.hpp"

#include "trainer/input/dataset_types.hpp"

namespace autotuned::input {

Result<std::unique_ptr<Dataset>> open_dataset(const std::string& type, const Json& parameters) {
  if (type == "idx") return open_idx(parameters);
  if (type == "synthetic") return open_synthetic(parameters);
  return fail(ErrorKind::unsupported, "the data set type `" + type + "` is not known", "data",
              "use idx or synthetic");
}

Result<std::int64_t> bounded_integer(const Json& parameters, const char* name, std::int64_t least,
                                     std::int64_t most, std::optional<std::int64_t> otherwise) {
  if (otherwise && member(parameters, name).is_null()) return *otherwise;
  auto value = get_integer(parameters, name);
  if (!value) {
    value.error().where = "data";
    return value;
  }
  if (*value < least || *value > most) {
    return fail(ErrorKind::invalid,
                "`" + std::string(name) + "` is " + std::to_string(*value) + ", outside of " +
                    std::to_string(least) + " to " + std::to_string(most),
                "data");
  }
  return value;
}

}  // namespace autotuned::input
