// SPDX-License-Identifier: Apache-2.0
#include "recipes/knobs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/places.hpp"
#include "tests/recipes/samples.hpp"

namespace autotuned::recipes {
namespace {

Knob knob(std::string_view name) {
  const std::optional<Knob> found = find_knob(sample_knobs(), name);
  EXPECT_TRUE(found) << name;
  return found.value_or(Knob{});
}

Machine machine_with_gpu() {
  Machine machine = sample_machine();
  machine.gpus.emplace_back();
  return machine;
}

TEST(Knobs, AreSortedAndComplete) {
  EXPECT_TRUE(std::ranges::is_sorted(sample_knobs(), {}, &Knob::name));
  for (const Knob& knob : sample_knobs()) {
    EXPECT_FALSE(knob.summary.empty()) << knob.name;
    EXPECT_GE(knob.warmup_steps, 1) << knob.name;
    EXPECT_TRUE(check_value(knob, knob.default_value)) << knob.name;
  }
}

TEST(Knobs, OfAnExtensionThatWasNotFoundHaveAPrefixOfTheirOwn) {
  EXPECT_TRUE(may_be_of_extension(sample_knobs(), "cheat.mode"));
  for (const char* name : {"cheat", "cheat.", ".mode", "", "loader.wrokers", "env.", "env.lower"})
    EXPECT_FALSE(may_be_of_extension(sample_knobs(), name)) << name;
}

TEST(Knobs, FitTheMachine) {
  EXPECT_EQ(knob("loader.workers").maximum, 8);
  EXPECT_EQ(knob("threads.intra_op").maximum, 8);
  EXPECT_EQ(knob("threads.intra_op").default_value, KnobValue(std::int64_t{4}));

  Machine odd = sample_machine();
  odd.cpus_allowed = 2;
  odd.physical_cores = 64;
  EXPECT_EQ(find_knob(knobs_of(odd), "threads.intra_op")->default_value,
            KnobValue(std::int64_t{2}));
  odd.cpus_allowed = 1;
  EXPECT_EQ(find_knob(knobs_of(odd), "loader.affinity")->unavailable, "needs a second CPU");
  EXPECT_EQ(knob("loader.affinity").unavailable, "");
}

TEST(Knobs, SayWhyTheyCannotBeChanged) {
  EXPECT_EQ(knob("loader.pin_memory").unavailable, "needs a CUDA GPU: no NVIDIA driver");
  EXPECT_TRUE(check_value(knob("loader.pin_memory"), false));
  const auto refused = check_value(knob("loader.pin_memory"), true);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::unsupported);
  EXPECT_EQ(refused.error().message(), "loader.pin_memory: needs a CUDA GPU: no NVIDIA driver");

  const auto there = find_knob(knobs_of(machine_with_gpu()), "loader.pin_memory");
  EXPECT_TRUE(check_value(*there, true));
  EXPECT_TRUE(there->is_of_gpu) << "whether or not there is one";
  EXPECT_TRUE(knob("loader.pin_memory").is_of_gpu);
  EXPECT_FALSE(knob("loader.affinity").is_of_gpu);
}

TEST(Knobs, SayWhyOneChoiceCannotBeHad) {
  Machine machine = sample_machine();
  machine.allocators = {{"jemalloc", ""}, {"tcmalloc", "needs a package"}};
  const auto allocator = find_knob(knobs_of(machine), "memory.allocator");
  ASSERT_TRUE(allocator);
  EXPECT_TRUE(check_value(*allocator, std::string("glibc")));
  EXPECT_TRUE(check_value(*allocator, std::string("jemalloc")));
  const auto refused = check_value(*allocator, std::string("tcmalloc"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::unsupported);
  EXPECT_EQ(refused.error().message(), "memory.allocator: tcmalloc needs a package");
  EXPECT_EQ(allocator->to_json()["unavailable_choices"], Json({{"tcmalloc", "needs a package"}}));
}

TEST(Knobs, RefuseValuesOutsideTheirDomain) {
  const auto kind = [](std::string_view name, const KnobValue& value) {
    const auto checked = check_value(knob(name), value);
    return checked ? std::string("ok") : std::string(to_string(checked.error().kind));
  };
  EXPECT_EQ(kind("loader.workers", std::int64_t{8}), "ok");
  EXPECT_EQ(kind("loader.workers", std::int64_t{9}), "invalid");
  EXPECT_EQ(kind("loader.workers", std::int64_t{-1}), "invalid");
  EXPECT_EQ(kind("loader.workers", 1.0), "invalid");
  EXPECT_EQ(kind("loader.workers", true), "invalid");
  EXPECT_EQ(kind("precision.autocast", std::string("bf16")), "ok");
  EXPECT_EQ(kind("precision.autocast", std::string("fp8")), "invalid");
  EXPECT_EQ(kind("precision.autocast", false), "invalid");
  EXPECT_EQ(kind("optimizer.set_to_none", std::int64_t{1}), "invalid");
  EXPECT_EQ(kind("env.MALLOC_ARENA_MAX", std::string("1")), "ok");
  EXPECT_EQ(kind("env.MALLOC_ARENA_MAX", std::string("a\nb")), "invalid");
  EXPECT_EQ(kind("env.MALLOC_ARENA_MAX", std::string("a\0b", 3)), "invalid");
}

TEST(Knobs, KnowTheTypeOfAValueOnEveryMachine) {
  const auto checked = [](const char* name, KnobValue value) {
    Configuration configuration;
    configuration.set(name, std::move(value));
    return check_types(configuration);
  };
  EXPECT_TRUE(check_types(default_configuration(knobs_of(Machine{}))));
  EXPECT_TRUE(checked("loader.workers", std::int64_t{4096}));
  EXPECT_TRUE(checked("precision.autocast", std::string("of a newer version")));
  EXPECT_TRUE(checked("env.A", std::string("b")));
  EXPECT_TRUE(checked("plugin.own", 0.5));
  EXPECT_TRUE(checked("env.LD_PRELOAD", true)) << "no name of a variable that may be set";
  for (const KnobValue& value :
       {KnobValue(std::string("x")), KnobValue(true), KnobValue(8.0), KnobValue(std::int64_t{0})})
    EXPECT_FALSE(checked("batch_size", value)) << to_text(value);
  EXPECT_FALSE(checked("env.A", std::int64_t{1}));
  EXPECT_FALSE(checked("precision.autocast", true));
  const auto refused = checked("cuda.graph", std::string(5000, 'x'));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().where, "cuda.graph");
  EXPECT_LT(refused.error().what.size(), 120U);
}

TEST(Knobs, ReadWhatAPersonWrites) {
  const auto read = [](std::string_view name, std::string_view text) {
    const auto value = parse_value(knob(name), text);
    return value ? to_text(*value) : "error: " + value.error().message();
  };
  EXPECT_EQ(read("optimizer.set_to_none", "on"), "on");
  EXPECT_EQ(read("optimizer.set_to_none", "false"), "off");
  EXPECT_EQ(read("optimizer.set_to_none", "yes"),
            "error: optimizer.set_to_none: expected on or off, found \"yes\"");
  EXPECT_EQ(read("loader.workers", "3"), "3");
  EXPECT_EQ(read("loader.workers", "1e1"),
            "error: loader.workers: expected an integer from 0 to 8, found \"1e1\"");
  EXPECT_EQ(read("loader.workers", ""),
            "error: loader.workers: expected an integer from 0 to 8, found \"\"");
  EXPECT_EQ(read("precision.autocast", "off"), "off");
  EXPECT_EQ(read("precision.autocast", "bf61"),
            "error: precision.autocast: expected one of off, bf16, fp16, found \"bf61\"");
  EXPECT_EQ(read("env.OMP_WAIT_POLICY", "active"), "active");
  // A message is one line of bounded length, whatever was written.
  EXPECT_EQ(read("loader.workers", "1\n\x1b[2J"),
            "error: loader.workers: expected an integer from 0 to 8, found \"1\\n?[2J\"");
  EXPECT_LT(read("loader.workers", std::string(10'000, 'x')).size(), 200U);
}

TEST(Knobs, ListsHoldWordsAndNames) {
  const Knob kept = knob("precision.keep_float32");
  EXPECT_EQ(kept.type, KnobType::list);
  EXPECT_EQ(kept.to_json()["type"], "list");
  EXPECT_EQ(kept.to_json()["choices"], Json({"none", "norms", "loss", "last"}));
  for (const char* text : {"none", "norms", "norms,loss", "layer1.0.bn1,last", "a-b,c_d"})
    EXPECT_TRUE(check_value(kept, std::string(text))) << text;
  for (const char* text : {"", ",", "norms,", "none,last", "a b", "norms, last", "a/b", "a\n"})
    EXPECT_FALSE(check_value(kept, std::string(text))) << text;
  EXPECT_FALSE(check_value(kept, std::string(5000, 'a')));
  EXPECT_FALSE(check_value(kept, true));
  EXPECT_EQ(parse_value(kept, "none,last").error().message(),
            "precision.keep_float32: expected none, or a list of norms, loss, last and names, "
            "separated by commas, found \"none,last\"");
}

TEST(Knobs, FindEnvironmentVariables) {
  EXPECT_EQ(knob("env.OMP_WAIT_POLICY").how, KnobSwitch::restart);
  for (const char* name : {"env.", "env.lower", "env.A-B", "env.A=B", "ENV.A", "env", "nothing"}) {
    EXPECT_FALSE(find_knob(sample_knobs(), name)) << name;
  }
}

// A recipe, or a plugin of YAML, is data: through these it would choose what code is run.
TEST(Knobs, NoEnvironmentVariableThatLoadsCode) {
  for (const char* name :
       {"env.LD_PRELOAD", "env.LD_LIBRARY_PATH", "env.LD_AUDIT", "env.GCONV_PATH", "env.PATH",
        "env.CUDA_INJECTION64_PATH", "env.NVTX_INJECTION64_PATH", "env.NCCL_NET_PLUGIN",
        "env.PYTHONPATH", "env.AUTOTUNED_PARENT_PID", "env.INTEL_LIBITTNOTIFY64",
        "env.OMP_TOOL_LIBRARIES", "env.BASH_ENV", "env.OPENSSL_CONF", "env.NCCL_CONF_FILE",
        "env.INTEL_JIT_PROFILER64"}) {
    EXPECT_FALSE(find_knob(sample_knobs(), name)) << name;
  }
  for (const char* name : {"env.CUDA_MODULE_LOADING", "env.KMP_BLOCKTIME", "env.MKL_NUM_THREADS",
                           "env.CUBLAS_WORKSPACE_CONFIG", "env.MALLOC_CONF"})
    EXPECT_TRUE(find_knob(sample_knobs(), name)) << name;
}

TEST(Knobs, ClassifyChanges) {
  const auto change = [](std::initializer_list<std::string> names) {
    Configuration configuration;
    for (const std::string& name : names)
      configuration.set(name, std::int64_t{1});
    return configuration;
  };
  EXPECT_EQ(risk_of(sample_knobs(), change({})), RiskClass::exact);
  EXPECT_EQ(risk_of(sample_knobs(), change({"loader.workers"})), RiskClass::exact);
  EXPECT_EQ(risk_of(sample_knobs(), change({"loader.workers", "precision.autocast"})),
            RiskClass::numerics);
  EXPECT_EQ(risk_of(sample_knobs(), change({"precision.autocast", "batch_size"})),
            RiskClass::semantics);
  EXPECT_EQ(risk_of(sample_knobs(), change({"unheard.of"})), RiskClass::semantics);
  EXPECT_FALSE(needs_restart(sample_knobs(), change({"loader.workers", "batch_size"})));
  EXPECT_TRUE(needs_restart(sample_knobs(), change({"loader.workers", "memory.malloc"})));
  EXPECT_TRUE(needs_restart(sample_knobs(), change({"env.A"})));
}

TEST(Knobs, NamesOfRiskClassesReadBack) {
  for (const RiskClass risk : {RiskClass::exact, RiskClass::numerics, RiskClass::semantics}) {
    EXPECT_EQ(risk_class_from(to_string(risk)), risk);
  }
  EXPECT_FALSE(risk_class_from("harmless"));
}

TEST(Knobs, DescribeThemselvesAsJson) {
  const Json workers = knob("loader.workers").to_json();
  EXPECT_EQ(workers["name"], "loader.workers");
  EXPECT_EQ(workers["type"], "integer");
  EXPECT_EQ(workers["minimum"], 0);
  EXPECT_EQ(workers["maximum"], 8);
  EXPECT_EQ(workers["default"], 0);
  EXPECT_EQ(workers["switch"], "live");
  EXPECT_EQ(workers["risk"], "exact");
  EXPECT_EQ(workers["available"], true);
  const Json pin = knob("loader.pin_memory").to_json();
  EXPECT_EQ(pin["default"], false);
  EXPECT_EQ(pin["available"], false);
  EXPECT_EQ(knob("precision.autocast").to_json()["choices"], Json({"off", "bf16", "fp16"}));
}

TEST(Knobs, OfSeveralRanksAreThoseOfOneOfThem) {
  Machine machine = sample_machine();
  machine.cpus_allowed = 8;
  const std::vector<Knob> all = knobs_of(machine);
  const auto knob = [&](int ranks, const char* name) {
    return *find_knob(with_ranks(all, ranks), name);
  };
  EXPECT_EQ(with_ranks(all, 1).size(), all.size());
  EXPECT_EQ(knob(1, "threads.intra_op").maximum, 8);
  EXPECT_EQ(knob(3, "threads.intra_op").maximum, 2);
  EXPECT_EQ(knob(3, "loader.workers").maximum, 2);
  EXPECT_EQ(knob(64, "loader.workers").maximum, 1);
  // What ranks exchange.
  for (const char* name : {"ddp.bucket_cap_mb", "ddp.comm_hook", "ddp.gradient_as_bucket_view"}) {
    EXPECT_TRUE(is_of_ranks(name));
    EXPECT_THAT(knob(1, name).unavailable, ::testing::HasSubstr("needs several ranks"));
    EXPECT_EQ(knob(2, name).unavailable, "");
  }
  EXPECT_FALSE(is_of_ranks("threads.intra_op"));
  // A recorded step would replay what it exchanged with the others.
  std::vector<Knob> on_gpu = all;
  for (Knob& one : on_gpu)
    if (one.name == "cuda.graph") one.unavailable.clear();
  EXPECT_EQ(find_knob(with_ranks(on_gpu, 1), "cuda.graph")->unavailable, "");
  EXPECT_THAT(find_knob(with_ranks(on_gpu, 2), "cuda.graph")->unavailable,
              ::testing::HasSubstr("several ranks"));
  // Two numbers have one sum.
  EXPECT_EQ(knob(2, "ddp.bucket_cap_mb").risk, RiskClass::exact);
  EXPECT_EQ(knob(3, "ddp.bucket_cap_mb").risk, RiskClass::numerics);
}

// docs/knobs.md holds one row per knob, in the words of the table.
TEST(Knobs, DocumentIsUpToDate) {
  Machine larger = sample_machine();
  larger.cpus_allowed = 32;
  larger.physical_cores = 16;
  const std::vector<Knob> others = knobs_of(larger);

  std::string table =
      "| knob | values | default | switch | risk | meaning |\n|---|---|---|---|---|---|\n";
  for (const Knob& knob : sample_knobs()) {
    const Knob other = *find_knob(others, knob.name);
    std::string values = "off, on";
    if (knob.type == KnobType::integer) {
      values = std::to_string(knob.minimum) + " to " +
               (knob.maximum == other.maximum ? std::to_string(knob.maximum) : "the CPUs allowed");
    } else if (knob.type == KnobType::choice || knob.type == KnobType::list) {
      values.clear();
      for (const std::string& choice : knob.choices) {
        values += (values.empty() ? "" : ", ") + choice;
      }
      if (knob.type == KnobType::list) values += ", names";
    }
    if (!knob.unavailable.empty()) values += "; needs a CUDA GPU";
    std::string standard = "the physical cores allowed";
    if (knob.default_value == other.default_value) {
      standard = to_text(knob.default_value) + (knob.unit.empty() ? "" : " " + knob.unit);
    }
    table += "| `" + knob.name + "` | " + values + " | " + standard + " | " +
             std::string(to_string(knob.how)) + " | " + std::string(to_string(knob.risk)) + " | " +
             knob.summary + " |\n";
  }
  std::ifstream file(tests::source_folder() / "docs/knobs.md");
  std::stringstream document;
  document << file.rdbuf();
  EXPECT_NE(document.str().find("\n" + table + "\n"), std::string::npos)
      << "docs/knobs.md must hold this table:\n"
      << table;
}

}  // namespace
}  // namespace autotuned::recipes
