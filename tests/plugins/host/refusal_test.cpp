// SPDX-License-Identifier: Apache-2.0
// Every way in which a file can be unfit to run: it is refused by name, and none of its code runs.
#include <elf.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <regex>
#include <sstream>
#include <utility>

#include "plugins/host/loader.hpp"
#include "plugins/host/trust.hpp"
#include "tests/golden_parts.hpp"
#include "tests/plugins/loader_scene.hpp"

namespace autotuned::plugins {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string content_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

// Calls `visit` with each section of a library but the first, and with the place of its header in the file.
template <class Visit>
void for_each_section(const std::string& library, Visit visit) {
  Elf64_Ehdr header{};
  std::memcpy(&header, library.data(), sizeof header);
  for (unsigned i = 1; i < header.e_shnum; ++i) {
    const std::size_t at = header.e_shoff + i * sizeof(Elf64_Shdr);
    Elf64_Shdr section{};
    std::memcpy(&section, library.data() + at, sizeof section);
    visit(section, at);
  }
}

template <class Value>
std::string with_value(std::string library, std::size_t at, Value value) {
  std::memcpy(library.data() + at, &value, sizeof value);
  return library;
}

std::string with_section(std::string library, const Elf64_Shdr& section, std::size_t at) {
  std::memcpy(library.data() + at, &section, sizeof section);
  return library;
}

class Refusal : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("AUTOTUNED_TEST_LOADING_MARK", mark_.c_str(), 1); }
  void TearDown() override {
    ::unsetenv("AUTOTUNED_TEST_LOADING_MARK");
    EXPECT_FALSE(std::filesystem::exists(mark_)) << "code of a refused library ran";
  }

  // Why the only plugin of the folder was refused, without anything of it having been called.
  std::string refusal() { return refusal_in(folder_); }
  std::string refusal_in(const PluginFolder& folder) {
    std::vector<std::string> loading;
    const std::vector<FoundPlugin> found = find_plugins(
        {folder.path()}, {}, [&](const std::string& name) { loading.push_back(name); });
    EXPECT_TRUE(is_found_by_loading_ || loading.empty());
    if (found.size() != 1) return std::to_string(found.size()) + " plugins";
    EXPECT_EQ(found.front().state, FoundPlugin::State::refused);
    EXPECT_EQ(found.front().policy, nullptr);
    return found.front().refusal;
  }

  // The fixture `marks`, which is fine and tells when it runs, with changed bytes.
  void add_changed(const std::string& content) { folder_.write("libmarks.so", content); }

  // Notes why what is in the folder is refused, and empties it.
  void note(const std::string& given) {
    const std::regex size("ends after [0-9]+ bytes");
    told_.add(given, std::regex_replace(refusal(), size, "ends after N bytes"));
    while (!std::filesystem::is_empty(folder_.path()))
      std::filesystem::remove_all(std::filesystem::directory_iterator(folder_.path())->path());
  }

  PluginFolder folder_;
  PluginFolder elsewhere_;
  std::filesystem::path mark_ = elsewhere_.path() / "mark";
  bool is_found_by_loading_ = false;
  tests::Cases told_{folder_.path()};
};

TEST_F(Refusal, OfAFixtureSaysWhatIsWrongWithIt) {
  std::string told;
  for (const char* const name :
       {"no_alias", "wrong_major", "bad_magic", "short_descriptor", "no_propose", "no_name",
        "late_magic", "other_name", "alias_is_function"}) {
    const PluginFolder folder;
    folder.add(name);
    told += std::string(name) + "\n  " + tests::with_here(refusal_in(folder), folder.path()) + "\n";
  }
  tests::expect_golden("plugins/host/golden/refusals.txt", told);
}

TEST_F(Refusal, OfAFileSaysWhatIsWrongWithIt) {
  const std::string marks = content_of(fixture_library("marks"));
  folder_.write("libtext.so",
                "#!/bin/sh\necho no library, but long enough to hold an ELF header\n");
  note("a text");
  folder_.write("libempty.so", "");
  note("an empty file");
  add_changed(marks.substr(0, marks.size() - 1));
  note("a library without its last byte");
  add_changed(with_value(marks, offsetof(Elf64_Ehdr, e_type), std::uint16_t{ET_EXEC}));
  note("a program");
  add_changed(with_value(marks, offsetof(Elf64_Ehdr, e_shnum), std::uint16_t{0}));
  note("no section table");
  for (const std::uint64_t offset : {UINT64_C(1) << 62U, ~UINT64_C(0) - 63}) {
    add_changed(with_value(marks, offsetof(Elf64_Ehdr, e_shoff), offset));
    note("a section table out of reach");
  }
  ::chmod(folder_.add("marks").c_str(), 0666);
  note("a file that others can write");
  folder_.add("marks");
  ::chmod(folder_.path().c_str(), 01777);
  note("a folder that others can write, even if it is sticky");
  ::chmod(folder_.path().c_str(), 0755);
  std::filesystem::create_symlink("libgone.so.1", folder_.path() / "libgone.so");
  note("a link to nothing");
  ASSERT_EQ(::mkfifo((folder_.path() / "libpipe.so").c_str(), 0600), 0);
  note("a pipe");
  folder_.make_folder("libfolder.so");
  note("a folder");
  folder_.add("marks", "Bad-Name");
  note("a name that is none");
  tests::expect_golden_part("plugins/host/golden/refused_files.txt", told_.text());
}

// Mapping such a file ends in SIGBUS, so every length must be caught by looking.
TEST_F(Refusal, ATruncatedLibraryOfAnyLength) {
  const std::string whole = content_of(fixture_library("marks"));
  for (std::size_t size = 0; size < whole.size(); size += 1 + size / 7) {
    add_changed(whole.substr(0, size));
    EXPECT_THAT(refusal(), Not(IsEmpty())) << size;
  }
}

// Which is the right one depends on the machine of the test.
TEST_F(Refusal, AnotherArchitecture) {
  const std::string marks = content_of(fixture_library("marks"));
  const auto other_order = static_cast<char>(ELFDATA2LSB + ELFDATA2MSB - marks.at(EI_DATA));
  for (const auto& [content, words] :
       {std::pair(with_value(marks, offsetof(Elf64_Ehdr, e_machine), std::uint16_t{EM_S390}),
                  "is built for 64-bit machine 22, this program for 64-bit "),
        std::pair(with_value(marks, EI_CLASS, char{ELFCLASS32}), "is built for 32-bit "),
        std::pair(with_value(marks, EI_DATA, other_order),
                  "is built for a machine of the other byte order, this program for")}) {
    add_changed(content);
    EXPECT_THAT(refusal(), HasSubstr(words));
  }
}

// A reader of symbols that believed these would ask for more memory than there is.
TEST_F(Refusal, SectionsThatReachBeyondTheFile) {
  const std::string whole = content_of(fixture_library("marks"));
  for_each_section(whole, [&](Elf64_Shdr section, std::size_t at) {
    if (section.sh_type == SHT_NOBITS) return;
    section.sh_size = UINT64_C(1) << 60U;
    add_changed(with_section(whole, section, at));
    EXPECT_THAT(refusal(), HasSubstr("ends after")) << at;
  });
}

// Found by tests/fuzz: with less than one symbol, the reader of symbols ended the process.
TEST_F(Refusal, ASymbolTableThatEndsWithinASymbol) {
  const std::string whole = content_of(fixture_library("marks"));
  int tables = 0;
  for_each_section(whole, [&](Elf64_Shdr section, std::size_t at) {
    if (section.sh_type != SHT_SYMTAB && section.sh_type != SHT_DYNSYM) return;
    section.sh_size = sizeof(Elf64_Sym) - 1;
    add_changed(with_section(whole, section, at));
    EXPECT_THAT(refusal(), HasSubstr("symbol table")) << at;
    ++tables;
  });
  EXPECT_GT(tables, 0);
}

// Wherever the tables of symbols, relocations and segments point, nothing of the file runs and nothing is
// read beyond its end.
TEST_F(Refusal, TablesThatPointAnywhere) {
  const std::string whole = content_of(fixture_library("other_name"));
  for_each_section(whole, [&](Elf64_Shdr section, std::size_t at) {
    if (section.sh_type != SHT_DYNSYM && section.sh_type != SHT_RELA) return;
    for (const char filling : {'\xff', '\x01', '\x00'}) {
      std::string content = whole;
      std::fill_n(content.begin() + static_cast<std::ptrdiff_t>(section.sh_offset), section.sh_size,
                  filling);
      folder_.write("libother_name.so", content);
      EXPECT_THAT(refusal(), Not(IsEmpty())) << at;
    }
    for (const std::uint32_t link : {0U, 0xffffU, 0xffffffffU}) {
      section.sh_link = link;
      folder_.write("libother_name.so", with_section(whole, section, at));
      EXPECT_THAT(refusal(), Not(IsEmpty())) << at;
    }
  });
}

TEST_F(Refusal, AFolderBelowOneThatOthersCanWrite) {
  const std::filesystem::path inner = folder_.make_folder("inner");
  std::filesystem::copy_file(fixture_library("marks"), inner / "libmarks.so");
  ::chmod(folder_.path().c_str(), 0777);
  const std::vector<FoundPlugin> found = find_plugins({inner}, {});
  ::chmod(folder_.path().c_str(), 0755);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found.front().kind, "folder");
  told_.add("a folder below one that others can write", found.front().refusal);
  tests::expect_golden_part("plugins/host/golden/refused_files.txt", told_.text());
}

TEST_F(Refusal, AFileOfSomebodyElse) {
  const std::filesystem::path file = folder_.add("marks");
  if (::chown(file.c_str(), 12345, static_cast<gid_t>(-1)) != 0) {
    GTEST_SKIP() << "only root can give files away";
  }
  EXPECT_THAT(refusal(), HasSubstr("owned by user 12345"));
}

TEST_F(Refusal, ALinkOutOfTheFolder) {
  elsewhere_.add("marks");
  std::filesystem::create_symlink(elsewhere_.path() / "libmarks.so",
                                  folder_.path() / "libmarks.so");
  EXPECT_THAT(refusal(), HasSubstr("symbolic link to " + elsewhere_.path().string()));
}

TEST_F(Refusal, OfAFolderSaysWhatIsWrongWithIt) {
  for (const std::filesystem::path& folder :
       {std::filesystem::path("plugins"), folder_.path() / "missing", folder_.write("file", "")}) {
    const std::vector<FoundPlugin> found = find_plugins({folder}, {});
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found.front().kind, "folder");
    EXPECT_EQ(found.front().state, FoundPlugin::State::refused);
    told_.add(folder.filename().string(), found.front().refusal);
  }
  tests::expect_golden_part("plugins/host/golden/refused_files.txt", told_.text());
}

// The loader of the system finds out, before it runs anything of it.
TEST_F(Refusal, ALibraryThatNeedsWhatNobodyHas) {
  is_found_by_loading_ = true;
  folder_.add("undefined_symbol");
  EXPECT_THAT(refusal(), HasSubstr("autotuned_test_nobody_has_this"));
}

TEST(Links, MayStayInTheFolder) {
  const PluginFolder folder;
  std::filesystem::rename(folder.add("plain_c"), folder.path() / "libplain_c.so.1");
  std::filesystem::create_symlink("libplain_c.so.1", folder.path() / "libplain_c.so");
  const FoundPlugin plugin = only_plugin(folder.path());
  EXPECT_EQ(plugin.state, FoundPlugin::State::ready) << plugin.refusal;
  EXPECT_EQ(plugin.path.filename(), "libplain_c.so.1");
}

TEST(Links, TheFolderItselfMayBeOne) {
  const PluginFolder folder;
  const PluginFolder links;
  folder.add("plain_c");
  std::filesystem::create_directory_symlink(folder.path(), links.path() / "link");
  EXPECT_EQ(only_plugin(links.path() / "link").state, FoundPlugin::State::ready);
}

struct stat of(uid_t user, gid_t group, mode_t mode) {
  struct stat status {};
  status.st_uid = user;
  status.st_gid = group;
  status.st_mode = mode;
  return status;
}

// Why not is a part of golden/trust.txt.
class Trust : public ::testing::Test {
 protected:
  ~Trust() override { tests::expect_golden_part("plugins/host/golden/trust.txt", told_); }
  void trusts(const std::string& why_not) { EXPECT_EQ(why_not, ""); }
  void distrusts(const std::string& given, const std::string& why) {
    EXPECT_NE(why, "") << given;
    told_ += given + "\n  " + why + "\n";
  }

 private:
  std::string told_;
};

TEST_F(Trust, IsForOurOwnAndForRoots) {
  const Viewer ada{.user = 1000};
  trusts(distrust(of(1000, 1000, S_IFREG | 0755), ada, false));
  trusts(distrust(of(0, 0, S_IFREG | 0644), ada, false));
  distrusts("another user", distrust(of(1001, 1000, S_IFREG | 0644), ada, false));
  distrusts("another user, to root",
            distrust(of(1001, 1000, S_IFREG | 0644), Viewer{.user = 0}, false));
}

TEST_F(Trust, AllowsWritingByAGroupOfOne) {
  const Viewer ada{.user = 1000, .private_group = 1000};
  trusts(distrust(of(1000, 1000, S_IFREG | 0664), ada, false));
  distrusts("another group", distrust(of(1000, 100, S_IFREG | 0664), ada, false));
  distrusts("a group of several",
            distrust(of(1000, 1000, S_IFREG | 0664), Viewer{.user = 1000}, false));
}

// As the kernel gives it: a version, then entries of a tag, permissions and a number.
std::string acl(std::initializer_list<std::array<std::uint32_t, 3>> entries) {
  std::string value("\2\0\0\0", 4);
  for (const auto& [tag, permissions, id] : entries) {
    for (const std::uint32_t number : {tag | permissions << 16U, id})
      value.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  return value;
}

TEST_F(Trust, EndsWhereAnAccessControlListLetsOthersWrite) {
  const Viewer ada{.user = 1000, .private_group = 1000};
  const std::array<std::uint32_t, 3> owner{0x01, 7, 0xffffffff};
  const std::array<std::uint32_t, 3> group{0x04, 7, 0xffffffff};
  const std::array<std::uint32_t, 3> mask{0x10, 7, 0xffffffff};
  const std::array<std::uint32_t, 3> narrow{0x10, 5, 0xffffffff};
  distrusts("a user", distrust_acl_value(acl({owner, {0x02, 7, 1001}, group, mask}), ada));
  distrusts("a group", distrust_acl_value(acl({owner, group, {0x08, 6, 50}, mask}), ada));
  // The mask takes it away again.
  trusts(distrust_acl_value(acl({owner, {0x02, 7, 1001}, group, narrow}), ada));
  trusts(distrust_acl_value(acl({owner, {0x02, 5, 1001}, group, mask}), ada));
  trusts(distrust_acl_value(acl({owner, {0x02, 7, 0}, {0x02, 7, 1000}, mask}), ada));
  trusts(distrust_acl_value("", ada));
  trusts(distrust_acl_value("\2", ada));
}

TEST(TrustOfAFile, LooksAtItsAccessControlList) {
  const PluginFolder folder;
  const std::string value = acl({{0x01, 7, 0xffffffff},
                                 {0x02, 7, 1001},
                                 {0x04, 0, 0xffffffff},
                                 {0x10, 7, 0xffffffff},
                                 {0x20, 0, 0xffffffff}});
  if (::setxattr(folder.path().c_str(), "system.posix_acl_access", value.data(), value.size(), 0) !=
      0) {
    GTEST_SKIP() << "the file system has no access control lists";
  }
  EXPECT_THAT(distrust_acl(folder.path().string(), Viewer{.user = 1000}), HasSubstr("user 1001"));
}

TEST_F(Trust, AllowsStickyFoldersOfRootAboveOnly) {
  const Viewer ada{.user = 1000};
  trusts(distrust(of(0, 0, S_IFDIR | 01777), ada, true));
  distrusts("the folder itself", distrust(of(0, 0, S_IFDIR | 01777), ada, false));
  distrusts("a folder of a user", distrust(of(1000, 0, S_IFDIR | 01777), ada, true));
  distrusts("a folder that is not sticky", distrust(of(0, 0, S_IFDIR | 0777), ada, true));
}

}  // namespace
}  // namespace autotuned::plugins
