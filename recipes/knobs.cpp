// SPDX-License-Identifier: Apache-2.0
#include "recipes/knobs.hpp"

#include <algorithm>
#include <array>

#include "base/enum_names.hpp"
#include "base/machine/allocator_library.hpp"
#include "base/utf8.hpp"
#include "recipes/environment_variables.hpp"

namespace autotuned::recipes {
namespace {

constexpr std::string_view kEnvironmentPrefix = "env.";
constexpr std::string_view kRanksPrefix = "ddp.";
constexpr std::string_view kBucketCap = "ddp.bucket_cap_mb";
constexpr std::string_view kGraph = "cuda.graph";
constexpr std::string_view kAllocator = "memory.allocator";

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

bool is_environment_name(std::string_view name) {
  return name.starts_with(kEnvironmentPrefix) &&
         is_settable_variable(name.substr(kEnvironmentPrefix.size()));
}

// The values that a knob may have, and its default.
struct Domain {
  KnobType type = KnobType::boolean;
  bool is_on = false;  // boolean: the default
  // integer
  std::int64_t minimum = 0;
  std::int64_t maximum = 0;
  std::int64_t default_number = 0;
  std::string_view unit = {};
  // choice, list: the first one is the default. Unused elements at the end are empty.
  std::array<std::string_view, 6> choices{};
};

// Stand for numbers of the machine: the CPUs that this process may use, and the cores among them.
constexpr std::int64_t kAllowedCpus = -1;
constexpr std::int64_t kAllowedCores = -2;

constexpr Domain on_or_off(bool is_on = false) {
  return {.type = KnobType::boolean, .is_on = is_on};
}

constexpr Domain integers(std::int64_t minimum, std::int64_t maximum, std::int64_t default_number,
                          std::string_view unit) {
  return {.type = KnobType::integer,
          .minimum = minimum,
          .maximum = maximum,
          .default_number = default_number,
          .unit = unit};
}

template <class... Names>
constexpr Domain choices(Names... names) {
  return {.type = KnobType::choice, .choices = {std::string_view(names)...}};
}

template <class... Names>
constexpr Domain list(Names... names) {
  return {.type = KnobType::list, .choices = {std::string_view(names)...}};
}

// The part of a machine without which the knob cannot be changed.
enum class Needs { nothing, gpu, second_cpu };

struct KnobEntry {
  std::string_view name;
  Domain domain;
  RiskClass risk = RiskClass::exact;
  KnobSwitch how = KnobSwitch::live;
  int warmup_steps = 1;
  std::string_view one_time_cost = {};
  Needs needs = Needs::nothing;
  std::string_view summary;
};

using enum RiskClass;

// Every built-in knob, sorted by name.
constexpr std::array kKnobs = {
    KnobEntry{
        .name = "batch_size",
        .domain = integers(1, 1'048'576, 32, "samples"),
        .risk = semantics,
        // On a GPU a new batch size begins with an empty cache, and LibTorch's allocator still takes memory in the third step.
        .warmup_steps = 3,
        .summary = "Number of samples in a step. It starts at the recipe's train.batch_size."},
    KnobEntry{.name = "checkpoint.async",
              .domain = on_or_off(),
              .summary =
                  "A checkpoint is copied in memory, and a thread writes it while the training "
                  "continues."},
    KnobEntry{
        .name = kGraph,
        .domain = on_or_off(),
        .risk = numerics,
        // The run that makes the optimizer's state, GraphPlan::kRunsBefore more (trainer), and the recording.
        .warmup_steps = 6,
        .one_time_cost = "recording the step as a graph",
        .needs = Needs::gpu,
        .summary = "A step is recorded once as a CUDA graph and launched as a whole, instead of "
                   "kernel by kernel."},
    KnobEntry{
        .name = "cudnn.benchmark",
        .domain = on_or_off(),
        .risk = numerics,
        // cuDNN keeps its plans for the life of the process, and looks for one before it reads the flag.
        .how = KnobSwitch::restart,
        .one_time_cost = "timing algorithms for every shape",
        .needs = Needs::gpu,
        .summary = "cuDNN times its algorithms once for every shape and keeps the fastest."},
    KnobEntry{.name = kBucketCap,
              .domain = integers(1, 1024, 25, "MiB"),
              // The first step makes the buckets, in the order in which gradients arrive.
              .warmup_steps = 2,
              .summary =
                  "Most bytes of the gradients that ranks average at a time, while the backward "
                  "pass goes on."},
    KnobEntry{
        .name = "ddp.comm_hook",
        .domain = choices("none", "bf16", "fp16"),
        .risk = numerics,
        .warmup_steps = 2,
        .summary = "The 16-bit form in which gradients travel between ranks; none: as they are."},
    KnobEntry{
        .name = "ddp.gradient_as_bucket_view",
        .domain = on_or_off(),
        .warmup_steps = 2,
        .summary = "Gradients are views of the buckets in which ranks average them, not copies."},
    KnobEntry{.name = "input.cache",
              .domain = choices("none", "raw", "decoded", "prefix", "decoded_file", "prefix_file"),
              .one_time_cost = "making the samples once",
              .summary =
                  "Samples are kept in memory or in a file: raw as stored, decoded, or prefix "
                  "(transformed up to the first random transform)."},
    KnobEntry{.name = "input.decode",
              .domain = choices("full", "crop"),
              .summary = "crop: the decoder decodes only the crop of a picture."},
    KnobEntry{.name = "input.decode_scale",
              .domain = choices("full", "half", "quarter", "eighth"),
              .risk = semantics,
              .summary = "The smallest scale at which a JPEG picture may be decoded before it is "
                         "resized; it is never decoded smaller than its target size."},
    KnobEntry{.name = "input.dilation",
              // The slowest is the default, because it is the usual way to dilate masks.
              .domain = choices("convolution", "shifts", "bits"),
              .summary =
                  "The method that dilates masks: a convolution, the union of shifted bytes, or "
                  "operations on 64 cells at a time."},
    KnobEntry{.name = "input.jpeg_index",
              .domain = on_or_off(),
              .one_time_cost = "reading the code of every file once",
              .summary = "An index holds the positions of rows in JPEG files, so that the decoder "
                         "reads only the rows and columns of a crop."},
    KnobEntry{.name = "input.order",
              .domain = choices("written", "crop_first"),
              .summary =
                  "crop_first: a crop runs before all transforms that give the same pixels in "
                  "either order."},
    KnobEntry{.name = "input.point_ops",
              .domain = choices("per_sample", "fused", "per_batch", "device"),
              .summary =
                  "The way in which transforms of single pixels run: one by one, in one pass "
                  "over a sample, one by one over the batch, or on the device after the "
                  "transfer."},
    KnobEntry{
        .name = "input.read_ahead",
        .domain = integers(0, 64, 0, "batches"),
        .summary = "Number of batches whose files the system reads in advance of the loader."},
    KnobEntry{.name = "layout.memory_format",
              .domain = choices("contiguous", "channels_last"),
              .risk = numerics,
              .warmup_steps = 2,
              .one_time_cost = "converting parameters and optimizer state",
              .summary = "Order of the dimensions of images and filters in memory."},
    KnobEntry{.name = "loader.affinity",
              .domain = choices("any", "apart"),
              .needs = Needs::second_cpu,
              .summary = "apart: loader workers do not use the CPU of the thread that launches the "
                         "steps."},
    KnobEntry{.name = "loader.pin_memory",
              .domain = on_or_off(),
              .one_time_cost = "page-locking the batch buffers",
              .needs = Needs::gpu,
              .summary = "Batches are assembled in page-locked memory, which a GPU copies faster."},
    KnobEntry{.name = "loader.prefetch_batches",
              .domain = integers(1, 16, 2, "batches per worker"),
              .summary =
                  "Number of batches that each loader worker may prepare ahead of the training "
                  "step."},
    KnobEntry{.name = "loader.workers",
              .domain = integers(0, kAllowedCpus, 0, "threads"),
              .one_time_cost = "starting the threads",
              .summary =
                  "Number of threads that prepare batches. With 0 the training thread prepares "
                  "them."},
    KnobEntry{
        .name = kAllocator,
        .domain = choices("glibc"),  // add_allocators() adds the others
        .how = KnobSwitch::restart,
        .summary = "The library that allocates memory: the C library or an installed allocator."},
    KnobEntry{.name = "memory.malloc",
              .domain = choices("default", "keep"),
              .how = KnobSwitch::restart,
              .summary = "keep: large blocks of memory are not returned to the operating system "
                         "between steps."},
    KnobEntry{.name = "optimizer.fused",
              .domain = on_or_off(),
              .risk = numerics,
              .summary = "One kernel updates a parameter and its optimizer state in one pass."},
    KnobEntry{.name = "optimizer.set_to_none",
              .domain = on_or_off(true),  // as zero_grad() of PyTorch 2
              .summary =
                  "Gradients are released before the backward pass instead of being filled with "
                  "zeros."},
    KnobEntry{.name = "precision.autocast",
              .domain = choices("off", "bf16", "fp16"),
              .risk = numerics,
              .warmup_steps = 2,
              .summary =
                  "Matrix products and convolutions are computed in 16 bits; with fp16 the loss "
                  "is scaled."},
    KnobEntry{.name = "precision.keep_float32",
              .domain = list("none", "norms", "loss", "last"),
              .risk = numerics,
              .warmup_steps = 2,
              .summary =
                  "Modules that stay in 32 bits under precision.autocast: all normalisations, "
                  "the loss, the module with the last parameter, or modules by name with all "
                  "modules inside them."},
    KnobEntry{.name = "precision.tf32",
              .domain = on_or_off(),
              .risk = numerics,
              .needs = Needs::gpu,
              .summary =
                  "Matrix products of 32-bit numbers are computed in TF32; convolutions always "
                  "are."},
    KnobEntry{.name = "rewrite.gather",
              .domain = choices("gather", "indexing"),
              .summary =
                  "indexing: a gather that selects whole rows is replaced by an operator that "
                  "copies rows."},
    KnobEntry{.name = "threads.intra_op",
              .domain = integers(1, kAllowedCpus, kAllowedCores, "threads"),
              .risk = numerics,
              .warmup_steps = 2,
              .summary = "Number of threads that share the work of one operator."},
    KnobEntry{
        .name = "train.loss_reading",
        // deferred is the default, because PyTorch itself reads no loss.
        .domain = choices("deferred", "every_step"),
        .summary = "every_step: the loss is read after every step, which waits for the device."},
    KnobEntry{.name = "transfer.dtype",
              .domain = choices("float32", "uint8"),
              .summary = "Data type in which batches are transferred; uint8 is converted and "
                         "normalised on the device."},
    KnobEntry{
        .name = "transfer.non_blocking",
        .domain = on_or_off(),
        .needs = Needs::gpu,
        .summary = "Batches are copied to the GPU on a CUDA stream of their own, during the step."},
};

// What a value has to be on every machine, in words; empty if it is that.
std::string expected_type(const Domain& domain, const KnobValue& value) {
  switch (domain.type) {
    case KnobType::boolean:
      return std::holds_alternative<bool>(value) ? "" : "true or false";
    case KnobType::integer: {
      const auto* const number = std::get_if<std::int64_t>(&value);
      if (number != nullptr && *number >= domain.minimum) return {};
      return "an integer of at least " + std::to_string(domain.minimum);
    }
    default:
      return std::holds_alternative<std::string>(value) ? "" : "a text";
  }
}

std::string why_unavailable(Needs needs, const Machine& machine) {
  if (needs == Needs::second_cpu && machine.cpus_allowed < 2) return "needs a second CPU";
  if (needs != Needs::gpu || !machine.gpus.empty()) return {};
  if (machine.gpu_reason.empty()) return "needs a CUDA GPU";
  return "needs a CUDA GPU: " + machine.gpu_reason;
}

// Adds the allocators of kAllocatorLibraries to the choices of the knob.
void add_allocators(const Machine& machine, Knob& knob) {
  for (const AllocatorLibrary& library : kAllocatorLibraries) {
    const std::string name(library.name);
    const auto found = machine.allocators.find(name);
    const std::string reason =
        found != machine.allocators.end() ? found->second : "was not searched for";
    if (!reason.empty()) knob.unavailable_choices[name] = reason;
    knob.choices.push_back(name);
  }
}

Knob knob_on(const Machine& machine, const KnobEntry& entry) {
  const std::int64_t cpus = std::max(1, machine.cpus_allowed);
  const auto number = [&](std::int64_t value) {
    if (value == kAllowedCpus) return cpus;
    if (value == kAllowedCores) return std::clamp<std::int64_t>(machine.physical_cores, 1, cpus);
    return value;
  };
  const Domain& domain = entry.domain;
  Knob knob;
  knob.name = entry.name;
  knob.type = domain.type;
  knob.unit = domain.unit;
  knob.risk = entry.risk;
  knob.how = entry.how;
  knob.warmup_steps = entry.warmup_steps;
  knob.one_time_cost = entry.one_time_cost;
  knob.is_of_gpu = entry.needs == Needs::gpu;
  knob.unavailable = why_unavailable(entry.needs, machine);
  knob.summary = entry.summary;
  for (const std::string_view name : domain.choices)
    if (!name.empty()) knob.choices.emplace_back(name);
  if (knob.name == kAllocator) add_allocators(machine, knob);
  if (domain.type == KnobType::boolean) {
    knob.default_value = domain.is_on;
  } else if (domain.type == KnobType::integer) {
    knob.minimum = number(domain.minimum);
    knob.maximum = number(domain.maximum);
    knob.default_value = number(domain.default_number);
  } else {
    knob.default_value = knob.choices.front();
  }
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

std::vector<Knob> knobs_of(const Machine& machine) {
  std::vector<Knob> knobs;
  knobs.reserve(kKnobs.size());
  for (const KnobEntry& entry : kKnobs)
    knobs.push_back(knob_on(machine, entry));
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
    } else if (knob.name == kGraph) {
      if (ranks > 1 && knob.unavailable.empty())
        knob.unavailable = "a recorded step of several ranks is not supported";
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
  // The class with the strictest check. A plugin that proposes a variable may declare a higher one.
  knob.risk = RiskClass::exact;
  knob.how = KnobSwitch::restart;
  knob.summary = "Environment variable of the trainer. An empty value leaves it unset.";
  return knob;
}

bool may_be_of_extension(const std::vector<Knob>& knobs, std::string_view name) {
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos || dot == 0 || dot + 1 == name.size()) return false;
  const std::string_view prefix = name.substr(0, dot + 1);
  return prefix != kEnvironmentPrefix && std::ranges::none_of(knobs, [prefix](const Knob& knob) {
           return knob.name.starts_with(prefix);
         });
}

Result<void> check_types(const Configuration& configuration) {
  for (const auto& [name, value] : configuration.values()) {
    const auto* const entry = std::ranges::find(kKnobs, name, &KnobEntry::name);
    const bool is_built_in = entry != kKnobs.end();
    if (!is_built_in && !is_environment_name(name)) continue;
    const std::string expected = is_built_in ? expected_type(entry->domain, value)
                                             : expected_type({.type = KnobType::text}, value);
    if (expected.empty()) continue;
    return fail(ErrorKind::invalid,
                "expected " + expected + ", found " + quote_for_message(to_text(value)), name);
  }
  return {};
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
    // An unknown knob claims nothing, so it counts as the riskiest class.
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
