// SPDX-License-Identifier: Apache-2.0
// What the writer writes, the reader reads: and so does a JSON parser that knows neither.
#include "profiler/traces/writer.hpp"

#include <gmock/gmock.h>

#include <filesystem>

#include "base/json.hpp"
#include "profiler/traces/reader.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/profiler/packed_json.hpp"

namespace autotuned::traces {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kStart = 1'795'282'803'123'456'789;
// The largest multiple of 7,889,238 s before it.
constexpr std::int64_t kBase = 1'790'857'026'000'000'000;

class Writer : public testing::Test {
 protected:
  TraceWriter create(const TraceHeader& header) const {
    auto writer = TraceWriter::create(file(), header);
    EXPECT_TRUE(writer) << writer.error().message();
    return std::move(*writer);
  }
  TraceWriter create() const {
    return create({.process = 100, .process_name = "trainer", .start_ns = kStart, .cpus = 6});
  }
  Trace read() const {
    auto trace = read_trace(file());
    EXPECT_TRUE(trace) << trace.error().message();
    return trace ? std::move(*trace) : Trace();
  }
  Json parsed() const { return read_packed_json(file()); }
  std::filesystem::path file() const { return folder_ / "a.pt.trace.json.gz"; }

  TemporaryFolder folder_;
};

TEST_F(Writer, WritesWhatTheReaderReads) {
  TraceWriter writer = create();
  writer.name_thread(7, "thread 7 (training)", 0);
  writer.begin_event("user_annotation", "ProfilerStep#3", 7, kStart, 5'000'001);
  writer.argument("External id", 1);
  writer.begin_event("cpu_op", "aten::mm", 7, kStart + 1'001, 42'449);
  writer.argument("External id", 2);
  writer.argument("Sequence number", 12);
  writer.argument("Module Hierarchy", "model.head");
  writer.argument_json("Input Dims", "[[2, 3], [3, 4]]");
  writer.argument_json("Input type", "[\"float\", \"float\"]");
  writer.begin_event("cpu_op", "aten::no_arguments", 8, kStart + 50'000, 0);
  writer.memory_change({.time_ns = kStart + 10,
                        .address = 4096,
                        .bytes = -24,
                        .allocated_bytes = 1000,
                        .reserved_bytes = 0,
                        .device_type = 0,
                        .device = -1},
                       7);
  const auto written = writer.finish(kStart + 6'000'000, 0);
  ASSERT_TRUE(written) << written.error().message();
  EXPECT_EQ(written->events, 4);
  EXPECT_EQ(written->bytes, static_cast<std::int64_t>(std::filesystem::file_size(file())));

  const Trace trace = read();
  EXPECT_THAT(trace.damage, IsEmpty());
  EXPECT_THAT(trace.notes, IsEmpty());
  EXPECT_TRUE(trace.is_complete);
  EXPECT_EQ(trace.cpus, 6);
  const Events& events = trace.events;
  EXPECT_THAT(events.kind,
              ElementsAre(EventKind::step, EventKind::cpu_operator, EventKind::cpu_operator));
  EXPECT_EQ(trace.name_of(1), "aten::mm");
  EXPECT_THAT(events.start_ns,
              ElementsAre(kStart - kBase, kStart - kBase + 1'001, kStart - kBase + 50'000));
  EXPECT_THAT(events.length_ns, ElementsAre(5'000'001, 42'449, 0));
  EXPECT_THAT(events.external_id, ElementsAre(1, 2, kNoId));
  EXPECT_EQ(trace.threads[events.thread[0]].process, "100");
  EXPECT_EQ(trace.threads[events.thread[0]].thread, "7");
  EXPECT_EQ(trace.threads[events.thread[2]].thread, "8");
  EXPECT_EQ(trace.names.text(events.module[1]), "model.head");
  EXPECT_EQ(events.module[0], kNoDetail);
  EXPECT_EQ(trace.names.text(events.detail[1]), "[\"float\", \"float\"]");
  ASSERT_EQ(trace.memory.size(), 1U);
  EXPECT_EQ(trace.memory[0].time_ns, kStart - kBase + 10);
  EXPECT_EQ(trace.memory[0].bytes, -24);
  EXPECT_EQ(trace.memory[0].allocated_bytes, 1000);
}

TEST_F(Writer, HasPyTorchsFields) {
  TraceWriter writer =
      create({.process = 100, .process_name = "trainer", .start_ns = kStart, .has_memory = true});
  writer.name_thread(7, "thread 7 (training)", 3);
  writer.begin_event("cpu_op", "aten::mm", 7, kStart + 5, 10);
  writer.link_forward_to_backward(4, 7, kStart + 5, 9, kStart + 2'500);
  ASSERT_TRUE(writer.finish(kStart + 9'000, 2));
  const Json json = parsed();
  EXPECT_EQ(json.at("schemaVersion"), 1);
  EXPECT_EQ(json.at("baseTimeNanoseconds"), kBase);
  EXPECT_EQ(json.at("profile_memory"), 1);
  EXPECT_FALSE(json.contains("record_shapes"));
  EXPECT_FALSE(json.contains("distributedInfo"));
  EXPECT_EQ(json.at("lostEvents"), 2);
  std::vector<Json> links;
  Json thread_name;
  Json end;
  for (const Json& event : json.at("traceEvents")) {
    if (event.value("cat", "") == "fwdbwd") links.push_back(event);
    if (event.at("name") == "thread_name") thread_name = event;
    if (event.at("name") == "Record Window End") end = event;
  }
  ASSERT_EQ(links.size(), 2U);
  EXPECT_EQ(links[0].at("ph"), "s");
  EXPECT_EQ(links[0].at("tid"), 7);
  EXPECT_EQ(links[1].at("ph"), "f");
  EXPECT_EQ(links[1].at("bp"), "e");
  EXPECT_EQ(links[1].at("id"), 4);
  EXPECT_EQ(links[1].at("tid"), 9);
  EXPECT_EQ(thread_name.at("args").at("name"), "thread 7 (training)");
  EXPECT_EQ(end.at("ts"), static_cast<double>(kStart + 9'000 - kBase) / 1000);
}

TEST_F(Writer, EscapesNamesOfAllKinds) {
  const std::vector<std::string> names = {"quote \" and \\ backslash",
                                          "C:\\new\\table",
                                          std::string("control \n\t\x01 \0 end", 18),
                                          "gr\xc3\xbc\xc3\x9f \xf0\x9f\x9a\x80",
                                          "]}, {\"ph\": \"X\"",
                                          "\x7f",
                                          std::string(100'000, 'x')};
  TraceWriter writer = create();
  for (const std::string& name : names)
    writer.begin_event("cpu_op", name, 1, kStart, 1);
  writer.begin_event("cpu_op", "broken \xff\xc3 bytes", 1, kStart, 1);
  ASSERT_TRUE(writer.finish(kStart, 0));
  const Trace trace = read();
  EXPECT_THAT(trace.damage, IsEmpty());
  ASSERT_EQ(trace.events.size(), names.size() + 1);
  for (std::size_t i = 0; i < names.size(); ++i)
    EXPECT_EQ(trace.name_of(i), names[i]);
  EXPECT_EQ(trace.name_of(names.size()), "broken ?? bytes");
  EXPECT_NO_THROW((void)parsed());
}

TEST_F(Writer, WritesAnEmptyTrace) {
  TraceWriter writer = create();
  ASSERT_TRUE(writer.finish(kStart, 0));
  EXPECT_EQ(parsed().at("schemaVersion"), 1);
  const auto trace = read_trace(file());
  ASSERT_FALSE(trace);
  EXPECT_EQ(trace.error().kind, ErrorKind::corrupt);
}

TEST_F(Writer, TellsItsTracesFromOtherFiles) {
  EXPECT_FALSE(is_own_trace(file())) << "there is none";
  TraceWriter writer = create();
  writer.begin_event("cpu_op", "aten::mm", 1, kStart, 1);
  ASSERT_TRUE(writer.finish(kStart, 0));
  EXPECT_TRUE(is_own_trace(file()));
  const std::string whole = folder_.read("a.pt.trace.json.gz");
  EXPECT_FALSE(is_own_trace(folder_.write("cut", whole.substr(0, whole.size() - 12))));
  EXPECT_FALSE(is_own_trace(folder_.write("other", "{\"traceEvents\": []}")));
  EXPECT_FALSE(is_own_trace(folder_.write("empty", "")));
  EXPECT_FALSE(is_own_trace(folder_.path()));
}

TEST_F(Writer, TellsOfLostEvents) {
  TraceWriter writer = create();
  writer.begin_event("cpu_op", "aten::mm", 1, kStart, 1);
  ASSERT_TRUE(writer.finish(kStart, 12'345));
  EXPECT_THAT(read().notes, ElementsAre(HasSubstr("12,345 events")));
}

TEST_F(Writer, KeepsTimesBeforeItsStart) {
  TraceWriter writer = create({.process = 1, .process_name = "", .start_ns = 1000});
  writer.begin_event("cpu_op", "a", 1, -1'500, 1);
  ASSERT_TRUE(writer.finish(2000, 0));
  EXPECT_THAT(read().events.start_ns, ElementsAre(-1'500));
}

TEST_F(Writer, LeavesNothingUnlessItFinishes) {
  {
    TraceWriter writer = create();
    writer.begin_event("cpu_op", "a", 1, kStart, 1);
  }
  EXPECT_TRUE(std::filesystem::is_empty(file().parent_path()));
}

TEST_F(Writer, NamesAFolderThatIsNotThere) {
  const auto writer = TraceWriter::create(folder_ / "missing" / "a.json.gz", {});
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().kind, ErrorKind::not_found);
  EXPECT_THAT(writer.error().message(), HasSubstr("missing"));
}

TEST_F(Writer, FollowsNoLink) {
  std::filesystem::create_symlink("/dev/full", folder_ / "a.part");
  EXPECT_FALSE(TraceWriter::create(folder_ / "a", {}));
}

}  // namespace
}  // namespace autotuned::traces
