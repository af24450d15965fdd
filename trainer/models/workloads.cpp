// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/workloads.hpp"

#include <algorithm>
#include <span>
#include <tuple>
#include <utility>

#include "plugins/sdk/workload.hpp"
#include "trainer/common/plugin_call.hpp"
#include "trainer/models/plugin.hpp"

namespace autotuned::trainer {
namespace {

using plugins::TrainerLibrary;

// The limits of data sets of our own (trainer/input/datasets/dataset_types.hpp).
constexpr std::int64_t kMaxSamples = 0xffff'ffff;
constexpr int kMaxClasses = 65'536;
constexpr int kMaxSide = 65'536;

class PluginDataset final : public input::Dataset {
 public:
  PluginDataset(std::unique_ptr<sdk::WorkloadData> data, std::string who)
      : data_(std::move(data)), who_(std::move(who)) {
    const sdk::SampleShape shape = data_->shape();
    shape_ = {shape.channels, shape.height, shape.width};
    size_ = data_->size();
    classes_ = data_->classes();
    element_ = data_->is_float() ? input::Element::float32 : input::Element::uint8;
  }

  // What is wrong with the data set, as a clause; empty: nothing.
  [[nodiscard]] std::string fault() const {
    const auto outside = [](const char* what, std::int64_t value, std::int64_t most) {
      return value < 1 || value > most ? std::string(what) + " is " + std::to_string(value) +
                                             ", expected 1 to " + std::to_string(most)
                                       : std::string();
    };
    for (const auto& [what, value, most] :
         {std::tuple{"size()", size_, kMaxSamples},
          std::tuple{"classes()", std::int64_t{classes_}, std::int64_t{kMaxClasses}},
          std::tuple{"the number of channels", std::int64_t{shape_.channels},
                     std::int64_t{kMaxSide}},
          std::tuple{"the height", std::int64_t{shape_.height}, std::int64_t{kMaxSide}},
          std::tuple{"the width", std::int64_t{shape_.width}, std::int64_t{kMaxSide}}}) {
      if (std::string wrong = outside(what, value, most); !wrong.empty()) return wrong;
    }
    return {};
  }

  std::int64_t size() const override { return size_; }
  input::SampleType type() const override { return input::type_of(element_, shape_); }
  int classes() const override { return classes_; }

  // Where the plugin throws, read() of the same sample reports it.
  std::int64_t label(std::int64_t index) const override {
    try {
      return data_->label(index);
    } catch (...) {
      return 0;
    }
  }

  Result<void> read(std::int64_t index, std::span<std::uint8_t> out) const override {
    const auto label =
        plugin_result(ErrorKind::invalid, who_, "label", [&] { return data_->label(index); });
    if (!label) return tl::unexpected(label.error());
    if (*label < 0 || *label >= classes_) {
      return fail(ErrorKind::invalid,
                  "the label of sample " + std::to_string(index) + " is " + std::to_string(*label) +
                      ", expected 0 to " + std::to_string(classes_ - 1),
                  who_);
    }
    return plugin_result(ErrorKind::invalid, who_, "read", [&] { data_->read(index, out); });
  }

  std::string name(std::int64_t index) const override {
    return "sample " + std::to_string(index) + " of " + who_;
  }

 private:
  std::unique_ptr<sdk::WorkloadData> data_;
  std::string who_;
  input::SampleShape shape_;
  std::int64_t size_ = 0;
  int classes_ = 0;
  input::Element element_ = input::Element::uint8;
};

}  // namespace

Workloads::Workloads(const std::filesystem::path& recipe, std::vector<TrainerLibrary> libraries)
    : recipe_(recipe.empty() ? "recipe" : recipe.string()), libraries_(std::move(libraries)) {
  std::erase_if(libraries_, [](const TrainerLibrary& library) {
    return library.kind != TrainerLibrary::Kind::workload;
  });
}

Result<Workloads::Found> Workloads::find(const recipes::Component& spec) const {
  const auto name = get_string(spec.parameters, "plugin");
  if (!name) return tl::unexpected(name.error());
  const std::int64_t line = get_integer(spec.parameters, "line").value_or(0);
  Found found{.surface = nullptr,
              .who = recipe_ + (line > 0 ? ":" + std::to_string(line) : "") + ", plugin " + *name,
              .parameters = to_line(member(spec.parameters, "parameters"))};
  const auto library = std::ranges::find(libraries_, *name, &TrainerLibrary::name);
  if (library == libraries_.end()) {
    return fail(ErrorKind::not_found, "there is no such workload", found.who,
                "`autotuned plugins` lists those found");
  }
  const Result<const void*> surface = plugins::load_trainer_library(*library);
  if (!surface) return tl::unexpected(surface.error());
  found.surface = static_cast<const sdk::detail::WorkloadSurface*>(*surface);
  return found;
}

Result<std::shared_ptr<Model>> Workloads::make_model(const recipes::Component& spec,
                                                     input::SampleShape sample) {
  const auto found = find(spec);
  if (!found) return tl::unexpected(found.error());
  if (found->surface->make_model == nullptr) {
    return fail(ErrorKind::invalid, "it has no model", found->who);
  }
  auto made = plugin_result(ErrorKind::invalid, found->who, "make_model", [&] {
    return found->surface->make_model(found->parameters,
                                      {sample.channels, sample.height, sample.width});
  });
  if (!made) return tl::unexpected(made.error());
  return wrap_plugin_model(std::move(*made), sample, found->who);
}

Result<std::unique_ptr<input::Dataset>> Workloads::open_data(const recipes::Component& spec) {
  const auto found = find(spec);
  if (!found) return tl::unexpected(found.error());
  if (found->surface->open_data == nullptr) {
    return fail(ErrorKind::invalid, "it has no data", found->who);
  }
  auto opened = plugin_result(ErrorKind::invalid, found->who, "open_data",
                              [&]() -> std::unique_ptr<PluginDataset> {
                                auto data = found->surface->open_data(found->parameters);
                                if (data == nullptr) return nullptr;
                                return std::make_unique<PluginDataset>(std::move(data), found->who);
                              });
  if (!opened) return tl::unexpected(opened.error());
  if (*opened == nullptr) return fail(ErrorKind::invalid, "open_data: made nothing", found->who);
  if (const std::string fault = (*opened)->fault(); !fault.empty()) {
    return fail(ErrorKind::invalid, "open_data: " + fault, found->who);
  }
  return std::move(*opened);
}

Result<LossFunction> Workloads::loss(const recipes::Component& spec) {
  const auto found = find(spec);
  if (!found) return tl::unexpected(found.error());
  if (found->surface->loss == nullptr) {
    return fail(ErrorKind::invalid, "it has no loss", found->who);
  }
  return [of_plugin = found->surface->loss, who = found->who](const at::Tensor& logits,
                                                              const at::Tensor& labels) {
    const bool has_tokens = logits.dim() == 3 && labels.dim() == 2;
    at::Tensor loss = plugin_call(who, "loss", [&] {
      return has_tokens ? of_plugin(logits.flatten(0, 1).to(at::kFloat), labels.flatten())
                        : of_plugin(logits.to(at::kFloat), labels);
    });
    if (!loss.defined() || loss.dim() != 0) {
      throw PluginError(who + ": loss: expected a scalar, found " +
                        (loss.defined() ? std::to_string(loss.dim()) + " dimensions" : "nothing"));
    }
    return loss;
  };
}

}  // namespace autotuned::trainer
