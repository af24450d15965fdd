// SPDX-License-Identifier: Apache-2.0
// Losses, optimizers and schedules: one entry each.
#include "recipes/schema_table.hpp"

namespace autotuned::recipes {
namespace {

using enum FieldType;

constexpr Range kShare{.minimum = 0, .maximum = 1};
constexpr Range kDivisor{.minimum = 1, .maximum = 1e12};

Field weight_decay_field() {
  return {.key = "weight_decay",
          .type = number,
          .summary = "L2 penalty: this factor times the parameters is added to the gradient.",
          .default_text = "0",
          .range = kNotNegative};
}

Field decoupled_decay_field(std::string_view by_default) {
  return {.key = "weight_decay",
          .type = number,
          .summary = "Each step subtracts this share of the parameters, times the learning rate.",
          .default_text = by_default,
          .range = kNotNegative};
}

// Without a default, so that recipes that say nothing about it keep their identity.
Field decay_norms_field() {
  return {.key = "decay_norms_and_biases",
          .type = boolean,
          .summary =
              "Apply weight_decay also to parameters of one dimension: those of norms, and "
              "biases.",
          .default_in_words = "true"};
}

std::string nesterov_needs_momentum(const YamlNode& /*map*/, const Json& values) {
  const Json& nesterov = member(values, "nesterov");
  const Json& momentum = member(values, "momentum");
  if (nesterov != true || !momentum.is_number() || momentum > 0) return {};
  return "nesterov needs a momentum above 0";
}

Field learning_rate_field(std::string_view by_default = "0.001") {
  return {.key = "lr",
          .type = number,
          .summary = "Learning rate at the recipe's own batch size.",
          .default_text = by_default,
          .range = kPositive};
}

Field betas_field(std::string_view by_default = "[0.9, 0.999]",
                  std::string_view summary =
                      "Decay rates of the running means of the gradient and of its square.") {
  return {.key = "betas",
          .type = number,
          .summary = summary,
          .default_text = by_default,
          .range = {.minimum = 0, .maximum = 1, .open_maximum = true},
          .shape = Shape::list,
          .length = 2};
}

Field epsilon_field() {
  return {.key = "eps",
          .type = number,
          .summary = "Added to the denominator.",
          .default_text = "1e-8",
          .range = kPositive};
}

// Without a default, so that recipes that say nothing about it keep their identity.
Field label_smoothing_field() {
  return {.key = "label_smoothing",
          .type = number,
          .summary = "Share of the target that is spread evenly over all classes.",
          .default_in_words = "no smoothing",
          .range = kShare};
}

// Without a default in the recipe, as the other parameters of losses.
Field bend_field(std::string_view key) {
  return {.key = key,
          .type = number,
          .summary = "Difference of output and target above which the loss is linear.",
          .default_in_words = "1",
          .range = kPositive};
}

Field class_weights_field() {
  return {.key = "class_weights",
          .type = number,
          .summary = "Weight of each class. The loss is the weighted mean, as in PyTorch.",
          .default_in_words = "every class has the same weight",
          .range = kNotNegative,
          .shape = Shape::list};
}

// Without a default in the recipe, as the other parameters of losses.
Field smooth_field() {
  return {.key = "smooth",
          .type = number,
          .summary = "Added above and below the fraction.",
          .default_in_words = "1e-5",
          .range = kPositive};
}

std::string some_class_counts(const YamlNode& /*map*/, const Json& values) {
  const Json& weights = member(values, "class_weights");
  if (!weights.is_array()) return {};
  for (const Json& weight : weights)
    if (weight > 0) return {};
  return "class_weights needs a weight above 0";
}

// Without a default, so that recipes that say nothing about it keep their identity.
Field warmup_ratio_field() {
  return {.key = "warmup_ratio",
          .type = number,
          .summary = "Share of the training in which the learning rate rises from a hundredth.",
          .default_in_words = "no warm-up",
          .range = kShare};
}

Field warmup_epochs_field() {
  return {.key = "warmup_epochs",
          .type = number,
          .summary = "The same in epochs; fractions are permitted.",
          .default_in_words = "warmup_ratio",
          .range = {.minimum = 0, .maximum = 1e6, .open_minimum = true},
          .unit = "epochs"};
}

Field warmup_steps_field() {
  return {.key = "warmup_steps",
          .type = integer,
          .summary = "The same in steps of the recipe's own batch size.",
          .default_in_words = "warmup_ratio",
          .range = {.minimum = 1, .maximum = 1e12},
          .unit = "steps"};
}

std::vector<Field> with_warmup(std::vector<Field> fields) {
  fields.push_back(warmup_ratio_field());
  fields.push_back(warmup_epochs_field());
  fields.push_back(warmup_steps_field());
  return fields;
}

// A ratio of 0 is the default of cosine, written or not.
std::string one_warmup(const YamlNode& /*map*/, const Json& values) {
  int given = 0;
  for (const char* key : {"warmup_ratio", "warmup_epochs", "warmup_steps"}) {
    const Json& length = member(values, key);
    given += !length.is_null() && length != 0 ? 1 : 0;
  }
  if (given < 2) return {};
  return "warmup_ratio, warmup_epochs and warmup_steps exclude each other; keep one of them";
}

std::string rising_epochs_and_one_warmup(const YamlNode& map, const Json& values) {
  const Json& epochs = member(values, "epochs");
  for (std::size_t i = 1; epochs.is_array() && i < epochs.size(); ++i) {
    if (epochs[i - 1] >= epochs[i]) return "epochs must be in ascending order, each only once";
  }
  return one_warmup(map, values);
}

// The key is required if there is no default.
Field gamma_field(std::string_view summary, std::string_view by_default) {
  return {.key = "gamma",
          .type = number,
          .summary = summary,
          .is_required = by_default.empty(),
          .default_text = by_default,
          .range = {.minimum = 0, .maximum = 1, .open_minimum = true}};
}

}  // namespace

// --- losses ---------------------------------------------------------------------------------------

const std::vector<Variant>& loss_types() {
  static const std::vector<Variant> types{
      {.name = "cross_entropy",
       .summary = "PyTorch's cross entropy of logits and labels, or of masks: the mean over the "
                  "pixels that count.",
       .fields = {label_smoothing_field(), class_weights_field()},
       .rule = some_class_counts},
      {.name = "bce",
       .summary =
           "Mean over samples and outputs of the binary cross entropy of each logit with the "
           "one-hot label, or with the tag.",
       .fields = {label_smoothing_field(),
                  {.key = "pos_weight",
                   .type = number,
                   .summary =
                       "Weight of samples that have a tag: one for all tags, or one per tag, "
                       "as in PyTorch.",
                   .default_in_words = "1",
                   .range = kPositive,
                   .shape = Shape::single_or_list}}},
      {.name = "mse",
       .summary = "Mean over samples and outputs of (output - target)^2. The target of a class is "
                  "one-hot."},
      {.name = "l1", .summary = "Mean over samples and outputs of |output - target|, of numbers."},
      {.name = "smooth_l1",
       .summary = "PyTorch's smooth L1 loss, for numbers: quadratic below beta, linear above it.",
       .fields = {bend_field("beta")}},
      {.name = "huber",
       .summary = "PyTorch's Huber loss, for numbers: smooth_l1 times delta.",
       .fields = {bend_field("delta")}},
      {.name = "dice",
       .summary =
           "For masks: 1 - mean over samples and classes of 2 |found and there| / (|found| + "
           "|there|), with the probabilities of the pixels that count.",
       .fields = {smooth_field()}},
      {.name = "dice_ce",
       .summary = "For masks: cross_entropy plus dice.",
       .fields = {class_weights_field(),
                  smooth_field(),
                  {.key = "dice_weight",
                   .type = number,
                   .summary = "Factor of dice in the sum.",
                   .default_in_words = "1",
                   .range = kPositive}},
       .rule = some_class_counts},
      {.name = kPluginType,
       .summary = "The loss of a workload plugin, written {plugin: NAME}, with any model. The word "
                  "plugin alone is the loss of the model's plugin.",
       .fields = {{.key = "plugin",
                   .type = text,
                   .summary = "Name of the workload plugin (`autotuned plugins` lists all).",
                   .default_in_words = "the plugin of the model"}},
       .is_plugin = true,
       .has_parameters = false},
  };
  return types;
}

// --- optimizers -----------------------------------------------------------------------------------

const std::vector<Variant>& optimizer_types() {
  static const std::vector<Variant> types{
      {.name = "sgd",
       .summary = "Stochastic gradient descent.",
       .fields = {{.key = "lr",
                   .type = number,
                   .summary = "Learning rate at the recipe's own batch size.",
                   .is_required = true,
                   .range = kPositive},
                  {.key = "momentum",
                   .type = number,
                   .summary = "Share of the last update that is added to the next.",
                   .default_text = "0",
                   .range = {.minimum = 0, .maximum = 1, .open_maximum = true}},
                  weight_decay_field(),
                  decay_norms_field(),
                  {.key = "nesterov",
                   .type = boolean,
                   .summary = "Use Nesterov momentum.",
                   .default_text = "false"}},
       .rule = nesterov_needs_momentum},
      {.name = "adam",
       .summary = "Adam.",
       .fields = {learning_rate_field(), betas_field(), epsilon_field(), weight_decay_field(),
                  decay_norms_field()}},
      {.name = "adamw",
       .summary = "Adam with decoupled weight decay.",
       .fields = {learning_rate_field(), betas_field(), epsilon_field(),
                  decoupled_decay_field("0.01"), decay_norms_field()}},
      {.name = "adagrad",
       .summary = "Adagrad: the learning rate of each parameter falls with the sum of its squared "
                  "gradients.",
       .fields = {{.key = "lr",
                   .type = number,
                   .summary = "Learning rate at the recipe's own batch size.",
                   .default_text = "0.01",
                   .range = kPositive},
                  {.key = "lr_decay",
                   .type = number,
                   .summary = "The learning rate of step n is divided by 1 + lr_decay * (n - 1).",
                   .default_text = "0",
                   .range = kNotNegative},
                  {.key = "eps",
                   .type = number,
                   .summary = "Added to the denominator.",
                   .default_text = "1e-10",
                   .range = kPositive},
                  {.key = "initial_accumulator_value",
                   .type = number,
                   .summary = "Initial value of the sums of squared gradients.",
                   .default_text = "0",
                   .range = kNotNegative},
                  weight_decay_field(),
                  decay_norms_field()}},
      {.name = "nadam",
       .summary = "Adam with Nesterov momentum.",
       .fields = {learning_rate_field("0.002"),
                  betas_field(),
                  epsilon_field(),
                  {.key = "momentum_decay",
                   .type = number,
                   .summary = "How fast the momentum rises to the first of betas.",
                   .default_text = "0.004",
                   .range = kNotNegative},
                  weight_decay_field(),
                  decay_norms_field()}},
      {.name = "rmsprop",
       .summary = "RMSprop: gradients are divided by the root of a running mean of their squares.",
       .fields = {learning_rate_field("0.01"),
                  {.key = "alpha",
                   .type = number,
                   .summary = "Decay rate of that running mean.",
                   .default_text = "0.99",
                   .range = {.minimum = 0, .maximum = 1, .open_maximum = true}},
                  epsilon_field(),
                  {.key = "momentum",
                   .type = number,
                   .summary = "Share of the last update that is added to the next.",
                   .default_text = "0",
                   .range = {.minimum = 0, .maximum = 1, .open_maximum = true}},
                  {.key = "centered",
                   .type = boolean,
                   .summary = "Subtract the square of a running mean of the gradients before the "
                              "root.",
                   .default_text = "false"},
                  weight_decay_field(),
                  decay_norms_field()}},
      {.name = "lion",
       .summary = "Lion: each step has the sign of a mixture of the gradient and its running mean.",
       .fields = {learning_rate_field("1e-4"),
                  betas_field("[0.9, 0.99]",
                              "Share of the running mean in that mixture, and its decay rate."),
                  decoupled_decay_field("0"), decay_norms_field()}},
  };
  return types;
}

// --- schedules ------------------------------------------------------------------------------------

const std::vector<Variant>& schedule_types() {
  static const std::vector<Variant> types{
      {.name = "constant",
       .summary = "The learning rate is constant.",
       .fields = with_warmup({}),
       .rule = one_warmup},
      {.name = "step",
       .summary = "The learning rate drops after every step_epochs epochs.",
       .fields = with_warmup({{.key = "step_epochs",
                               .type = integer,
                               .summary = "Number of epochs between two drops.",
                               .is_required = true,
                               .range = {.minimum = 1, .maximum = 1e6},
                               .unit = "epochs"},
                              gamma_field("Factor of each drop.", "0.1")}),
       .rule = one_warmup},
      {.name = "multi_step",
       .summary = "The learning rate drops when the given numbers of epochs are done.",
       .fields = with_warmup({{.key = "epochs",
                               .type = integer,
                               .summary = "Epochs done before each drop, in ascending order.",
                               .is_required = true,
                               .range = {.minimum = 1, .maximum = 1e6},
                               .unit = "epochs",
                               .shape = Shape::single_or_list},
                              gamma_field("Factor of each drop.", "0.1")}),
       .rule = rising_epochs_and_one_warmup},
      {.name = "exponential",
       .summary = "The learning rate drops after every epoch.",
       .fields = with_warmup({gamma_field("Factor of each drop.", {})}),
       .rule = one_warmup},
      {.name = "cosine",
       .summary = "The learning rate rises linearly from a hundredth, then falls along half a "
                  "cosine until the end of the training.",
       .fields = {{.key = "warmup_ratio",
                   .type = number,
                   .summary = "Share of the training in which the learning rate rises.",
                   .default_text = "0",
                   .range = kShare},
                  warmup_epochs_field(),
                  warmup_steps_field(),
                  {.key = "min_lr_ratio",
                   .type = number,
                   .summary = "Ratio of the learning rate at the end to the highest one.",
                   .default_text = "0",
                   .range = kShare}},
       .rule = one_warmup},
      {.name = "polynomial",
       .summary =
           "The learning rate falls to 0 at the end of the training, as a power of the share "
           "of the training that is left.",
       .fields = with_warmup({{.key = "power",
                               .type = number,
                               .summary = "The power; 1 is a straight line.",
                               .default_text = "1",
                               .range = kPositive}}),
       .rule = one_warmup},
      {.name = "one_cycle",
       .summary = "The learning rate rises from a low value to the optimizer's lr, then falls to "
                  "nearly nothing at the last step.",
       .fields = {{.key = "pct_start",
                   .type = number,
                   .summary = "Share of the training in which the learning rate rises.",
                   .default_text = "0.3",
                   .range = kShare},
                  {.key = "div_factor",
                   .type = number,
                   .summary = "The first learning rate is the highest one divided by this.",
                   .default_text = "25",
                   .range = kDivisor},
                  {.key = "final_div_factor",
                   .type = number,
                   .summary = "The last learning rate is the first one divided by this.",
                   .default_text = "1e4",
                   .range = kDivisor},
                  {.key = "anneal",
                   .type = choice,
                   .summary = "Rise and fall along half a cosine, or in a straight line.",
                   .default_text = "cos",
                   .choices = {"cos", "linear"}}}},
      {.name = "plateau",
       .summary = "The learning rate drops when the loss of the evaluations has not fallen.",
       .fields = with_warmup(
           {{.key = "factor",
             .type = number,
             .summary = "Factor of each drop.",
             .default_text = "0.1",
             .range = {.minimum = 0, .maximum = 1, .open_minimum = true, .open_maximum = true}},
            {.key = "patience",
             .type = integer,
             .summary = "Number of evaluations without a lower loss after which "
                        "the next one is followed by a drop.",
             .default_text = "10",
             .range = {.minimum = 0, .maximum = 1e6},
             .unit = "evaluations"},
            {.key = "threshold",
             .type = number,
             .summary = "Share of the lowest loss by which a loss must be lower "
                        "to count.",
             .default_text = "1e-4",
             .range = kShare},
            {.key = "min_lr_ratio",
             .type = number,
             .summary = "Least ratio of the learning rate to the highest one.",
             .default_text = "0",
             .range = kShare}}),
       .rule = one_warmup},
  };
  return types;
}

}  // namespace autotuned::recipes
