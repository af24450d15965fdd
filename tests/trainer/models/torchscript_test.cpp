// SPDX-License-Identifier: Apache-2.0
// Models from TorchScript files, which the tests write themselves.
#include <ATen/Functions.h>
#include <caffe2/serialize/inline_container.h>
#include <gmock/gmock.h>
#include <torch/csrc/jit/api/module.h>

#include <fstream>

#include "base/file.hpp"
#include "tests/golden.hpp"
#include "tests/trainer/models/formula.hpp"
#include "tests/trainer/small_job.hpp"
#include "trainer/common/precision.hpp"
#include "trainer/step/kept_modules.hpp"

namespace autotuned::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr input::SampleShape kSample{.channels = 2, .height = 4, .width = 4};

// A linear layer inside, dropout, a buffer that counts and a weight that does not learn.
torch::jit::Module network(const std::string& forward) {
  torch::jit::Module inner("Inner");
  at::Tensor weight = at::empty({3, 32});
  fill(weight, 1, 0.3);
  at::Tensor frozen = at::empty({3});
  fill(frozen, 2, 0.3);
  inner.register_parameter("weight", weight.set_requires_grad(true), false);
  inner.register_parameter("frozen", frozen, false);
  torch::jit::Module outer("Outer");
  outer.register_module("inner", inner);
  outer.register_buffer("seen", at::zeros({}));
  outer.register_attribute("training", c10::BoolType::get(), true);
  outer.define(forward);
  return outer;
}

constexpr const char* kForward = R"(
def forward(self, x):
    if self.training:
        self.seen.add_(1.0)
    y = torch.dropout(x.flatten(1), 0.5, self.training)
    m = y.mean(1, keepdim=True)
    n = (y - m) / torch.sqrt(((y - m) * (y - m)).mean(1, keepdim=True) + 0.1)
    return torch.linear(n, self.inner.weight) + self.inner.frozen
)";

class TorchScript : public testing::Test {
 protected:
  recipes::Component spec(Json more = Json::object()) const {
    more["file"] = (folder_ / "net.pt").string();
    return {"torchscript", more};
  }
  std::shared_ptr<Model> saved(const char* forward) {
    network(forward).save(folder_ / "net.pt");
    return value_of(make_model(spec(), kSample));
  }
  std::string error_of(const recipes::Component& spec) const {
    const auto made = make_model(spec, kSample);
    if (made) return "no error";
    EXPECT_EQ(made.error().kind, ErrorKind::invalid);
    EXPECT_EQ(made.error().where, (folder_ / "net.pt").string());
    EXPECT_NE(made.error().remedy, "");
    return made.error().message();
  }
  std::string error_with(const std::string& forward) const {
    network(forward).save(folder_ / "net.pt");
    return error_of(spec());
  }

  Folder folder_;
};

TEST_F(TorchScript, SharesItsParametersAndBuffers) {
  const auto model = saved(kForward);
  ASSERT_TRUE(model);
  EXPECT_EQ(model->classes(), 3);
  EXPECT_THAT(model->named_parameters().keys(), ElementsAre("inner.weight"));
  EXPECT_THAT(model->named_buffers().keys(), ElementsAre("seen", "inner.frozen"));
  const at::Tensor images = images_of({2, 2, 4, 4});
  model->forward(images).sum().backward();
  EXPECT_EQ(model->named_buffers()["seen"].item<double>(), 1.0);
  EXPECT_TRUE(model->named_parameters()["inner.weight"].grad().defined());

  model->eval();
  const at::Tensor before = model->forward(images);
  EXPECT_TRUE(at::equal(model->forward(images), before));  // no dropout
  EXPECT_EQ(model->named_buffers()["seen"].item<double>(), 1.0);
  {
    const at::NoGradGuard no_grad;
    model->named_parameters()["inner.weight"].mul_(2.0);
  }
  EXPECT_FALSE(at::equal(model->forward(images), before));
  model->train();
  EXPECT_FALSE(at::equal(model->forward(images), model->forward(images)));
}

TEST_F(TorchScript, CanKeepOnlyItsLossIn32Bit) {
  const auto model = saved(kForward);
  ASSERT_TRUE(model);
  EXPECT_TRUE(value_of(kept_modules(*model, "loss")).has_loss);
  for (const char* value : {"inner", "norms", "last", "loss,last"}) {
    const auto kept = kept_modules(*model, value);
    ASSERT_FALSE(kept) << value;
    EXPECT_EQ(kept.error().kind, ErrorKind::unsupported);
    EXPECT_THAT(kept.error().message(), HasSubstr("TorchScript's interpreter calls the modules"));
  }
}

// LibTorch's default executor computes other gradients from the third call on.
TEST_F(TorchScript, HasRightGradientsInEveryCall) {
  const auto model = saved(kForward);
  ASSERT_TRUE(model);
  const at::Tensor weight = model->named_parameters()["inner.weight"];
  const at::Tensor frozen = model->named_buffers()["inner.frozen"];
  for (int call = 0; call < 6; ++call) {
    SCOPED_TRACE(call);
    at::Tensor images = images_of({2, 2, 4, 4});
    images.set_requires_grad(true);
    const auto gradients_of = [&](const std::function<at::Tensor()>& forward) {
      weight.mutable_grad().reset();
      images.mutable_grad().reset();
      at::manual_seed(static_cast<std::uint64_t>(call));
      forward().square().sum().backward();
      return std::vector<at::Tensor>{weight.grad(), images.grad()};
    };
    const auto scripted = gradients_of([&] { return model->forward(images); });
    const auto eager = gradients_of([&] {
      const at::Tensor y = at::dropout(images.flatten(1), 0.5, true);
      const at::Tensor m = y.mean(1, true);
      const at::Tensor n = (y - m) / at::sqrt(((y - m) * (y - m)).mean(1, true) + 0.1);
      return at::linear(n, weight) + frozen;
    });
    EXPECT_TRUE(at::allclose(scripted[0], eager[0], 1e-5, 1e-6));
    EXPECT_TRUE(at::allclose(scripted[1], eager[1], 1e-5, 1e-6));
  }
}

TEST_F(TorchScript, ObeysAutocast) {
  const auto model =
      saved("def forward(self, x):\n    return torch.linear(x.flatten(1), self.inner.weight)\n");
  ASSERT_TRUE(model);
  const AutocastGuard autocast(at::kCPU, at::kBFloat16);
  for (int call = 0; call < 3; ++call) {
    const at::Tensor logits = model->forward(images_of({2, 2, 4, 4}));
    EXPECT_EQ(logits.scalar_type(), at::kBFloat16);
    logits.sum().backward();
  }
}

TEST_F(TorchScript, LeavesTheGeneratorAlone) {
  network(kForward).save(folder_ / "net.pt");
  at::manual_seed(9);
  const at::Tensor expected = at::rand({4});
  at::manual_seed(9);
  const auto model = value_of(make_model(spec(), kSample));
  EXPECT_TRUE(at::equal(at::rand({4}), expected));
}

TEST_F(TorchScript, RefusesABufferThatIsReplaced) {
  const auto model = saved(R"(
def forward(self, x):
    if self.training:
        self.seen = self.seen + 1.0
    return torch.linear(x.flatten(1), self.inner.weight)
)");
  ASSERT_TRUE(model);
  EXPECT_THAT(
      [&] {
        (void)model->forward(images_of({2, 2, 4, 4}));
      },
      testing::ThrowsMessage<c10::Error>(HasSubstr("its buffer seen another tensor")));
}

TEST_F(TorchScript, SaysWhatAnotherFileOfPythonIs) {
  const auto file = (folder_ / "net.pt").string();
  const auto write_archive = [&](const std::vector<std::string>& records) {
    caffe2::serialize::PyTorchStreamWriter writer(file);
    for (const std::string& record : records)
      writer.writeRecord(record, "x", 1);
    writer.writeEndOfFile();
  };
  tests::Cases cases(file);
  write_archive({"data.pkl", "data/0"});
  cases.add("what torch.save() writes", error_of(spec()));
  write_archive({"archive_format", "models/model.json"});
  cases.add("a program of torch.export()", error_of(spec()));
  std::ofstream(file, std::ios::trunc) << "\x80\x02" << std::string(100, '.');
  cases.add("a pickle", error_of(spec()));
  std::ofstream(file, std::ios::trunc).flush();
  cases.add("an empty file", error_of(spec()));
  tests::expect_golden("trainer/models/golden/torchscript_files.txt", cases.text());
}

TEST_F(TorchScript, RefusesDamagedWeights) {
  network(kForward).save(folder_ / "net.pt");
  const std::string file = (folder_ / "net.pt").string();
  const std::uint64_t at = caffe2::serialize::PyTorchStreamReader(file).getRecordOffset("data/0");
  std::string bytes = value_of(read_file(file, std::size_t{1} << 24U));
  bytes[at] ^= 1;
  ASSERT_TRUE(write_file_atomically(file, bytes));
  const auto made = make_model(spec(), kSample);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind, ErrorKind::corrupt);
  EXPECT_EQ(made.error().message(),
            file +
                ": the file is damaged: record data/0 has another checksum; copy the file from "
                "its origin again");
}

TEST_F(TorchScript, NamesWhatCannotBeTrained) {
  std::ofstream(folder_ / "net.pt") << std::string(10'000, 'x');
  EXPECT_EQ(
      error_of(spec()),
      (folder_ / "net.pt").string() +
          ": this is no TorchScript model: it is no archive that PyTorch can read; save it in "
          "Python with torch.jit.script(model).save(FILE)");

  tests::Cases cases(folder_ / "net.pt");
  torch::jit::Module("Empty").save(folder_ / "net.pt");
  cases.add("no forward", error_of(spec()));

  torch::jit::Module still("Still");
  still.define("def forward(self, x):\n    return x.flatten(1)\n");
  still.save(folder_ / "net.pt");
  cases.add("no parameters", error_of(spec()));
  for (const char* returned : {"x.mean(2)", "x.narrow(3, 0, 3)", "torch.zeros([3, 5])", "[x]"})
    cases.add(returned,
              error_with("def forward(self, x):\n    return " + std::string(returned) + "\n"));
  EXPECT_THAT(error_with("def forward(self, x):\n    return x.reshape([2, 7])\n"),
              HasSubstr("forward fails on two samples of 2 x 4 x 4"));

  network(kForward).save(folder_ / "net.pt");
  cases.add("too few classes", error_of(spec({{"classes", 10}})));
  tests::expect_golden("trainer/models/golden/torchscript.txt", cases.text());
  EXPECT_TRUE(make_model(spec({{"classes", 3}}), kSample));
}

}  // namespace
}  // namespace autotuned::trainer
