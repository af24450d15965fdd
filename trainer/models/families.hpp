// SPDX-License-Identifier: Apache-2.0
// One function per family of models, each in a source file of its own; make_model() chooses. Private to trainer/models:
// includes LibTorch.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/json.hpp"
#include "trainer/models/model.hpp"

namespace autotuned::trainer {

// REQUIRES: `spec` names a model of the family. Errors are those of make_model().
using MadeModel = Result<std::shared_ptr<Model>>;
[[nodiscard]] MadeModel make_fashion_cnn(const recipes::Component& spec, input::SampleShape sample);
[[nodiscard]] MadeModel make_mlp(const recipes::Component& spec, input::SampleShape sample);
[[nodiscard]] MadeModel make_simple_cnn(const recipes::Component& spec, input::SampleShape sample);
[[nodiscard]] MadeModel make_pooling_cnn(const recipes::Component& spec, input::SampleShape sample);
[[nodiscard]] MadeModel make_resnet(const recipes::Component& spec, input::SampleShape sample);
[[nodiscard]] MadeModel make_convnext(const recipes::Component& spec, input::SampleShape sample);
[[nodiscard]] MadeModel make_efficientnet(const recipes::Component& spec,
                                          input::SampleShape sample);
[[nodiscard]] MadeModel make_mobilenet(const recipes::Component& spec, input::SampleShape sample);
[[nodiscard]] MadeModel make_unet(const recipes::Component& spec, input::SampleShape sample);
[[nodiscard]] MadeModel make_vit(const recipes::Component& spec, input::SampleShape sample);
[[nodiscard]] MadeModel make_gpt(const recipes::Component& spec, input::SampleShape sample);
[[nodiscard]] MadeModel make_paced(const recipes::Component& spec, input::SampleShape sample);
[[nodiscard]] MadeModel make_torchscript(const recipes::Component& spec, input::SampleShape sample);

// Reads the parameters of one model and remembers the first that is missing or wrong.
class ModelParameters {
 public:
  explicit ModelParameters(const recipes::Component& spec) : spec_(spec) {}

  [[nodiscard]] std::int64_t integer(const char* name) { return keep(get_integer, name); }
  [[nodiscard]] double number(const char* name) { return keep(get_number, name); }
  [[nodiscard]] std::string text(const char* name) { return keep(get_string, name); }
  [[nodiscard]] bool flag(const char* name) { return keep(get_bool, name); }
  [[nodiscard]] bool has(const char* name) const {
    return !member(spec_.parameters, name).is_null();
  }

  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  template <class T>
  T keep(Result<T> (*read)(const Json&, const char*), const char* name) {
    Result<T> value = read(spec_.parameters, name);
    if (value) return std::move(*value);
    if (!error_) {
      error_ = value.error();
      error_->where = "model " + spec_.type;
    }
    return T{};
  }

  const recipes::Component& spec_;
  std::optional<Error> error_;
};

// ErrorKind::invalid about samples that do not fit a model.
[[nodiscard]] inline tl::unexpected<Error> unfit(const std::string& model, const std::string& needs,
                                                 input::SampleShape sample,
                                                 const std::string& remedy) {
  return fail(ErrorKind::invalid,
              needs + ", but they are " + std::to_string(sample.channels) + " x " +
                  std::to_string(sample.height) + " x " + std::to_string(sample.width) +
                  " (channels, height, width)",
              "model " + model, remedy);
}

// For models that take only colour images: what is wrong with the parameters or, if nothing is, with the samples.
[[nodiscard]] inline std::optional<Error> colour_model_error(const ModelParameters& parameters,
                                                             const recipes::Component& spec,
                                                             input::SampleShape sample) {
  if (parameters.error()) return parameters.error();
  if (sample.channels == 3) return std::nullopt;
  return unfit(spec.type, "needs samples of 3 channels", sample, "use colour images").value();
}

}  // namespace autotuned::trainer
