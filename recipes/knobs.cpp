// SPDX-License-Identifier: Apache-2.0
#include "recipes/knobs.hpp"

#include <algorithm>
#include <charconv>

#include "base/enum_names.hpp"
#include "base/machine/allocator_library.hpp"
#include "base/utf8.hpp"
#include "recipes/environment_variables.hpp"

namespace autotuned::recipes {
namespace {

constexpr std::string_view kEnvironmentPrefix = "env.";
constexpr std::size_t kMaxTextBytes = 4096;
constexpr std::string_view kRanksPrefix = "ddp.";
constexpr std::string_view kBucketCap = "ddp.bucket_cap_mb";

constexpr EnumNames<KnobType, 5> kTypeNames = {{
    {KnobType::boolean, "boolean"},
    {KnobType::integer, "integer"},
    {KnobType::choice, "choice"},
    {KnobType::text, "text"},
    {KnobType::list, "list"},
}};

constexpr EnumNames<RiskClass, 3> kRiskNames = {{
    {RiskClass::exact, "exact"},
    {RiskClass::numerics, "numerics"},
    {RiskClass::semantics, "semantics"},
}};

std::string list_text(const Knob& knob) {
  std::string result = knob.choices.front() + ", or a list of";
  for (std::size_t i = 1; i < knob.choices.size(); ++i)
    result += (i == 1 ? " " : ", ") + knob.choices[i];
  return result + " and names, separated by commas";
}

bool is_name(std::string_view word) {
  return !word.empty() && std::ranges::all_of(word, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

bool is_list_of(const Knob& knob, std::string_view text) {
  if (text == knob.choices.front()) return true;
  if (text.size() > kMaxTextBytes) return false;
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view word = text.substr(0, comma);
    if (!is_name(word) || word == knob.choices.front()) return false;
    if (comma == std::string_view::npos) return true;
    text.remove_prefix(comma + 1);
  }
}

// How to say which values a knob takes.
std::string domain_text(const Knob& knob) {
  switch (knob.type) {
    case KnobType::boolean:
      return "on or off";
    case KnobType::integer:
      return "an integer from " + std::to_string(knob.minimum) + " to " +
             std::to_string(knob.maximum);
    case KnobType::text:
      return "one line of text";
    case KnobType::list:
      return list_text(knob);
    case KnobType::choice:
      break;
  }
  std::string result = "one of ";
  for (std::size_t i = 0; i < knob.choices.size(); ++i) {
    result += (i == 0 ? "" : ", ") + knob.choices[i];
  }
  return result;
}

tl::unexpected<Error> outside(const Knob& knob, std::string_view found) {
  return fail(ErrorKind::invalid,
              "expected " + domain_text(knob) + ", found " + quote_for_message(found), knob.name);
}

bool is_environment_name(std::string_view name) {
  return name.starts_with(kEnvironmentPrefix) &&
         is_settable_variable(name.substr(kEnvironmentPrefix.size()));
}

Knob boolean(std::string name, std::string summary) {
  Knob knob;
  knob.name = std::move(name);
  knob.type = KnobType::boolean;
  knob.default_value = false;
  knob.summary = std::move(summary);
  return knob;
}

Knob integer(std::string name, std::int64_t minimum, std::int64_t maximum,
             std::int64_t default_value, std::string unit, std::string summary) {
  Knob knob;
  knob.name = std::move(name);
  knob.type = KnobType::integer;
  knob.minimum = minimum;
  knob.maximum = maximum;
  knob.default_value = default_value;
  knob.unit = std::move(unit);
  knob.summary = std::move(summary);
  return knob;
}

// The first choice is the default.
Knob choice(std::string name, std::vector<std::string> choices, std::string summary) {
  Knob knob;
  knob.name = std::move(name);
  knob.type = KnobType::choice;
  knob.default_value = choices.front();
  knob.choices = std::move(choices);
  knob.summary = std::move(summary);
  return knob;
}

}  // namespace

std::string_view to_string(KnobType type) {
  return enum_name(kTypeNames, type);
}

std::optional<KnobType> knob_type_from(std::string_view name) {
  return enum_value(kTypeNames, name);
}

std::string_view to_string(KnobSwitch how) {
  return how == KnobSwitch::live ? "live" : "restart";
}

std::string_view to_string(RiskClass risk) {
  return enum_name(kRiskNames, risk);
}

std::optional<RiskClass> risk_class_from(std::string_view name) {
  return enum_value(kRiskNames, name);
}

Json Knob::to_json() const {
  Json json{{"name", name},
            {"type", to_string(type)},
            {"default", autotuned::to_json(default_value)},
            {"unit", unit},
            {"risk", to_string(risk)},
            {"switch", to_string(how)},
            {"warmup_steps", warmup_steps},
            {"one_time_cost", one_time_cost},
            {"available", unavailable.empty()},
            {"summary", summary}};
  if (type == KnobType::integer) {
    json["minimum"] = minimum;
    json["maximum"] = maximum;
  }
  if (!choices.empty()) json["choices"] = choices;
  if (!unavailable.empty()) json["unavailable"] = unavailable;
  if (!unavailable_choices.empty()) json["unavailable_choices"] = unavailable_choices;
  return json;
}

std::vector<Knob> knobs_of(const Machine& machine) {
  const std::int64_t cpus = std::max(1, machine.cpus_allowed);
  const std::int64_t cores = std::clamp<std::int64_t>(machine.physical_cores, 1, cpus);
  std::string needs_gpu;
  if (machine.gpus.empty()) {
    needs_gpu = "needs a CUDA GPU";
    if (!machine.gpu_reason.empty()) needs_gpu += ": " + machine.gpu_reason;
  }
  const auto make_of_gpu = [&needs_gpu](Knob& knob) {
    knob.is_of_gpu = true;
    knob.unavailable = needs_gpu;
  };

  std::vector<Knob> knobs;

  Knob& batch_size = knobs.emplace_back(
      integer("batch_size", 1, 1'048'576, 32, "samples",
              "Number of samples in a step. It starts at the recipe's train.batch_size."));
  batch_size.risk = RiskClass::semantics;
  // On a GPU each begins with an empty cache, and LibTorch's allocator still takes memory in the third step.
  batch_size.warmup_steps = 3;

  knobs.push_back(boolean(
      "checkpoint.async",
      "A checkpoint is copied in memory, and a thread writes it while the training continues."));

  Knob& graph = knobs.emplace_back(boolean("cuda.graph",
                                           "A step is recorded once as a CUDA graph and launched "
                                           "as a whole, instead of kernel by kernel."));
  graph.risk = RiskClass::numerics;
  // Of the trainer: the run that makes the optimizer's state, GraphPlan::kRunsBefore more, and the recording.
  graph.warmup_steps = 6;
  graph.one_time_cost = "recording the step as a graph";
  make_of_gpu(graph);

  Knob& benchmark = knobs.emplace_back(boolean(
      "cudnn.benchmark", "cuDNN times its algorithms once for every shape and keeps the fastest."));
  benchmark.risk = RiskClass::numerics;
  // cuDNN's plans are kept for the life of the process, and looked up before the flag is.
  benchmark.how = KnobSwitch::restart;
  benchmark.one_time_cost = "timing algorithms for every shape";
  make_of_gpu(benchmark);

  // Two steps after a change: the first one makes the buckets, in the order in which gradients come.
  Knob& bucket = knobs.emplace_back(
      integer(std::string(kBucketCap), 1, 1024, 25, "MiB",
              "Most bytes of the gradients that ranks average at a time, while the backward pass "
              "goes on."));
  bucket.warmup_steps = 2;

  Knob& hook = knobs.emplace_back(
      choice("ddp.comm_hook", {"none", "bf16", "fp16"},
             "The 16-bit form in which gradients travel between ranks; none: as they are."));
  hook.risk = RiskClass::numerics;
  hook.warmup_steps = 2;

  Knob& view = knobs.emplace_back(
      boolean("ddp.gradient_as_bucket_view",
              "Gradients are views of the buckets in which ranks average them, not copies."));
  view.warmup_steps = 2;

  Knob& cache = knobs.emplace_back(
      choice("input.cache", {"none", "raw", "decoded", "prefix", "decoded_file", "prefix_file"},
             "Samples are kept in memory or in a file: raw as stored, decoded, or prefix "
             "(transformed up to the first random transform)."));
  cache.one_time_cost = "making the samples once";

  knobs.push_back(choice("input.decode", {"full", "crop"},
                         "crop: the decoder decodes only the crop of a picture."));

  // The slowest first: it is how masks are dilated where nobody thinks about it.
  knobs.push_back(choice("input.dilation", {"convolution", "shifts", "bits"},
                         "The method that dilates masks: a convolution, the union of shifted "
                         "bytes, or operations on 64 cells at a time."));

  Knob& scale = knobs.emplace_back(
      choice("input.decode_scale", {"full", "half", "quarter", "eighth"},
             "The smallest scale at which a JPEG picture may be decoded before it is resized; it "
             "is never decoded smaller than its target size."));
  scale.risk = RiskClass::semantics;

  Knob& index =
      knobs.emplace_back(boolean("input.jpeg_index",
                                 "An index holds the positions of rows in JPEG files, so that the "
                                 "decoder reads only the rows and columns of a crop."));
  index.one_time_cost = "reading the code of every file once";

  knobs.push_back(choice(
      "input.order", {"written", "crop_first"},
      "crop_first: a crop runs before all transforms that give the same pixels in either order."));

  knobs.push_back(
      choice("input.point_ops", {"per_sample", "fused", "per_batch", "device"},
             "The way in which transforms of single pixels run: one by one, in one pass over a "
             "sample, one by one over the batch, or on the device after the transfer."));

  knobs.push_back(
      integer("input.read_ahead", 0, 64, 0, "batches",
              "Number of batches whose files the system reads in advance of the loader."));

  Knob& affinity = knobs.emplace_back(
      choice("loader.affinity", {"any", "apart"},
             "apart: loader workers do not use the CPU of the thread that launches the steps."));
  if (cpus < 2) affinity.unavailable = "needs a second CPU";

  knobs.push_back(
      integer("loader.prefetch_batches", 1, 16, 2, "batches per worker",
              "Number of batches that each loader worker may prepare ahead of the training step."));

  Knob& workers = knobs.emplace_back(
      integer("loader.workers", 0, cpus, 0, "threads",
              "Number of threads that prepare batches. With 0 the training thread prepares them."));
  workers.one_time_cost = "starting the threads";

  Knob& pin_memory = knobs.emplace_back(
      boolean("loader.pin_memory",
              "Batches are assembled in page-locked memory, which a GPU copies faster."));
  pin_memory.one_time_cost = "page-locking the batch buffers";
  make_of_gpu(pin_memory);

  Knob& non_blocking = knobs.emplace_back(
      boolean("transfer.non_blocking",
              "Batches are copied to the GPU on a CUDA stream of their own, during the step."));
  make_of_gpu(non_blocking);

  knobs.push_back(choice("transfer.dtype", {"float32", "uint8"},
                         "Data type in which batches are transferred; uint8 is converted and "
                         "normalised on the device."));

  Knob& autocast = knobs.emplace_back(choice(
      "precision.autocast", {"off", "bf16", "fp16"},
      "Matrix products and convolutions are computed in 16 bits; with fp16 the loss is scaled."));
  autocast.risk = RiskClass::numerics;
  autocast.warmup_steps = 2;

  Knob& kept = knobs.emplace_back(choice(
      "precision.keep_float32", {"none", "norms", "loss", "last"},
      "Modules that stay in 32 bits under precision.autocast: all normalisations, the loss, the "
      "module with the last parameter, or modules by name with all modules inside them."));
  kept.type = KnobType::list;
  kept.risk = RiskClass::numerics;
  kept.warmup_steps = 2;

  Knob& tf32 = knobs.emplace_back(
      boolean("precision.tf32",
              "Matrix products of 32-bit numbers are computed in TF32; convolutions always are."));
  tf32.risk = RiskClass::numerics;
  make_of_gpu(tf32);

  Knob& fused = knobs.emplace_back(boolean(
      "optimizer.fused", "One kernel updates a parameter and its optimizer state in one pass."));
  fused.risk = RiskClass::numerics;

  Knob& set_to_none = knobs.emplace_back(boolean(
      "optimizer.set_to_none",
      "Gradients are released before the backward pass instead of being filled with zeros."));
  set_to_none.default_value = true;  // zero_grad() of PyTorch 2

  Knob& threads =
      knobs.emplace_back(integer("threads.intra_op", 1, cpus, cores, "threads",
                                 "Number of threads that share the work of one operator."));
  threads.risk = RiskClass::numerics;
  threads.warmup_steps = 2;

  std::vector<std::string> allocators = {"glibc"};
  std::map<std::string, std::string> missing_allocators;
  for (const AllocatorLibrary& library : kAllocatorLibraries) {
    const std::string name(library.name);
    const auto here = machine.allocators.find(name);
    const std::string reason =
        here != machine.allocators.end() ? here->second : "was not searched for";
    if (!reason.empty()) missing_allocators[name] = reason;
    allocators.push_back(name);
  }
  Knob& allocator = knobs.emplace_back(
      choice("memory.allocator", std::move(allocators),
             "The library that allocates memory: the C library or an installed allocator."));
  allocator.how = KnobSwitch::restart;
  allocator.unavailable_choices = std::move(missing_allocators);

  Knob& malloc = knobs.emplace_back(choice(
      "memory.malloc", {"default", "keep"},
      "keep: large blocks of memory are not returned to the operating system between steps."));
  malloc.how = KnobSwitch::restart;

  Knob& layout =
      knobs.emplace_back(choice("layout.memory_format", {"contiguous", "channels_last"},
                                "Order of the dimensions of images and filters in memory."));
  layout.risk = RiskClass::numerics;
  layout.warmup_steps = 2;
  layout.one_time_cost = "converting parameters and optimizer state";

  knobs.push_back(choice(
      "rewrite.gather", {"gather", "indexing"},
      "indexing: a gather that selects whole rows is replaced by an operator that copies rows."));

  // Deferred first: PyTorch by itself reads nothing.
  knobs.push_back(
      choice("train.loss_reading", {"deferred", "every_step"},
             "every_step: the loss is read after every step, which waits for the device."));

  std::ranges::sort(knobs, {}, &Knob::name);
  return knobs;
}

bool is_of_ranks(std::string_view knob) {
  return knob.starts_with(kRanksPrefix);
}

std::vector<Knob> with_ranks(std::vector<Knob> knobs, int ranks) {
  for (Knob& knob : knobs) {
    if (is_of_ranks(knob.name)) {
      if (ranks == 1) knob.unavailable = "needs several ranks (train.ranks)";
      if (ranks > 2 && knob.name == kBucketCap) knob.risk = RiskClass::numerics;
    } else if (knob.name == "threads.intra_op" || knob.name == "loader.workers") {
      knob.maximum = std::max<std::int64_t>(1, knob.maximum / ranks);
    }
  }
  return knobs;
}

std::optional<Knob> find_knob(const std::vector<Knob>& knobs, std::string_view name) {
  const auto found = std::ranges::find(knobs, name, &Knob::name);
  if (found != knobs.end()) return *found;
  if (!is_environment_name(name)) return std::nullopt;
  Knob knob;
  knob.name = name;
  knob.type = KnobType::text;
  knob.default_value = std::string();
  // The strictest check: a plugin that proposes a variable may declare a higher class.
  knob.risk = RiskClass::exact;
  knob.how = KnobSwitch::restart;
  knob.summary = "Environment variable of the trainer. An empty value leaves it unset.";
  return knob;
}

Result<void> check_value(const Knob& knob, const KnobValue& value) {
  bool is_inside = false;
  switch (knob.type) {
    case KnobType::boolean:
      is_inside = std::holds_alternative<bool>(value);
      break;
    case KnobType::integer:
      if (const auto* number = std::get_if<std::int64_t>(&value)) {
        is_inside = *number >= knob.minimum && *number <= knob.maximum;
      }
      break;
    case KnobType::choice:
      if (const auto* text = std::get_if<std::string>(&value)) {
        is_inside = std::ranges::find(knob.choices, *text) != knob.choices.end();
      }
      break;
    case KnobType::list:
      if (const auto* text = std::get_if<std::string>(&value)) is_inside = is_list_of(knob, *text);
      break;
    case KnobType::text:
      if (const auto* text = std::get_if<std::string>(&value)) {
        is_inside = text->size() <= kMaxTextBytes && std::ranges::none_of(*text, [](char c) {
                      return static_cast<unsigned char>(c) < 0x20;
                    });
      }
      break;
  }
  if (!is_inside) return outside(knob, to_text(value));
  if (!knob.unavailable.empty() && value != knob.default_value) {
    return fail(ErrorKind::unsupported, knob.unavailable, knob.name);
  }
  if (const auto* choice = std::get_if<std::string>(&value); choice != nullptr) {
    const auto found = knob.unavailable_choices.find(*choice);
    if (found != knob.unavailable_choices.end()) {
      return fail(ErrorKind::unsupported, *choice + " " + found->second, knob.name);
    }
  }
  return {};
}

Result<KnobValue> parse_value(const Knob& knob, std::string_view text) {
  KnobValue value = std::string(text);
  if (knob.type == KnobType::boolean) {
    if (text == "on" || text == "true") {
      value = true;
    } else if (text == "off" || text == "false") {
      value = false;
    }
  } else if (knob.type == KnobType::integer) {
    std::int64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error == std::errc{} && stop == end) value = number;
  }
  if (const auto checked = check_value(knob, value); !checked) {
    return tl::unexpected(checked.error());
  }
  return value;
}

Configuration default_configuration(const std::vector<Knob>& knobs) {
  Configuration configuration;
  for (const Knob& knob : knobs)
    configuration.set(knob.name, knob.default_value);
  return configuration;
}

RiskClass risk_of(const std::vector<Knob>& knobs, const Configuration& change) {
  RiskClass risk = RiskClass::exact;
  for (const auto& [name, value] : change.values()) {
    // An unknown knob claims nothing, so it is treated as the worst.
    const std::optional<Knob> knob = find_knob(knobs, name);
    risk = std::max(risk, knob ? knob->risk : RiskClass::semantics);
  }
  return risk;
}

bool needs_restart(const std::vector<Knob>& knobs, const Configuration& change) {
  return std::ranges::any_of(change.values(), [&](const auto& entry) {
    const std::optional<Knob> knob = find_knob(knobs, entry.first);
    return !knob || knob->how == KnobSwitch::restart;
  });
}

}  // namespace autotuned::recipes
