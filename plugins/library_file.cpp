// SPDX-License-Identifier: Apache-2.0
#include "plugins/library_file.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace autotuned::plugins {
namespace {

#if defined(__x86_64__)
constexpr unsigned kOurMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr unsigned kOurMachine = EM_AARCH64;
#else
#error "name the ELF machine of this architecture"
#endif

constexpr const char* kExpected = "a plugin is a 64-bit ELF shared library of this architecture";

std::string machine_name(unsigned machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86-64";
    case EM_AARCH64:
      return "AArch64";
    case EM_386:
      return "x86";
    case EM_RISCV:
      return "RISC-V";
    case EM_PPC64:
      return "PowerPC 64";
    default:
      return fmt::format("machine {}", machine);
  }
}

constexpr unsigned char kOurByteOrder =
    std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;

// "64-bit x86-64". With the other byte order the machine's number cannot be read.
std::string architecture(unsigned char width, unsigned char byte_order, unsigned machine) {
  if (byte_order != kOurByteOrder) return "a machine of the other byte order";
  return fmt::format("{}-bit {}", width == ELFCLASS64 ? 64 : 32, machine_name(machine));
}

class LibraryFile {
 public:
  explicit LibraryFile(const std::filesystem::path& file)
      : name_(file.string()), stream_(file, std::ios::binary | std::ios::ate) {
    if (stream_) size_ = static_cast<std::uint64_t>(stream_.tellg());
  }

  Result<void> check() {
    if (!stream_) return fail(ErrorKind::io, "cannot be read", name_);
    if (!read(0, &header_) || std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0) {
      return fail(ErrorKind::invalid, "is not an ELF file", name_, kExpected);
    }
    if (header_.e_ident[EI_CLASS] != ELFCLASS64 || header_.e_ident[EI_DATA] != kOurByteOrder ||
        header_.e_machine != kOurMachine) {
      return fail(ErrorKind::unsupported,
                  fmt::format("is built for {}, this program for {}",
                              architecture(header_.e_ident[EI_CLASS], header_.e_ident[EI_DATA],
                                           header_.e_machine),
                              architecture(ELFCLASS64, kOurByteOrder, kOurMachine)),
                  name_, kExpected);
    }
    if (header_.e_type != ET_DYN) {
      return fail(ErrorKind::invalid, "is an ELF file but not a shared library", name_, kExpected);
    }
    if (auto segments = check_segments(); !segments) return segments;
    return check_sections();
  }

  // REQUIRES: check().
  Result<std::string> section(std::string_view name) {
    Elf64_Shdr names{};
    if (!read(header_.e_shoff + header_.e_shstrndx * sizeof names, &names)) {
      return truncated("section names");
    }
    for (unsigned i = 1; i < header_.e_shnum; ++i) {
      Elf64_Shdr section{};
      if (!read(header_.e_shoff + i * sizeof section, &section)) return truncated("section table");
      if (section.sh_name >= names.sh_size ||
          text(names.sh_offset + section.sh_name, names.sh_size - section.sh_name) != name) {
        continue;
      }
      return text(section.sh_offset, section.sh_size);
    }
    return std::string();
  }

 private:
  template <class T>
  bool read(std::uint64_t at, T* value) {
    if (!holds(at, sizeof(T))) return false;
    std::array<char, sizeof(T)> bytes{};
    stream_.seekg(static_cast<std::streamoff>(at));
    if (!stream_.read(bytes.data(), bytes.size())) return false;
    std::memcpy(value, bytes.data(), bytes.size());
    return true;
  }

  // Up to the first NUL.
  std::string text(std::uint64_t at, std::uint64_t most) {
    constexpr std::uint64_t kMost = 1U << 20U;
    most = std::min(most, kMost);
    if (!holds(at, most)) return {};
    std::string bytes(static_cast<std::size_t>(most), '\0');
    stream_.seekg(static_cast<std::streamoff>(at));
    if (!stream_.read(bytes.data(), static_cast<std::streamsize>(most))) return {};
    bytes.resize(std::min(bytes.find('\0'), bytes.size()));
    return bytes;
  }

  [[nodiscard]] bool holds(std::uint64_t at, std::uint64_t count) const {
    return at <= size_ && count <= size_ - at;
  }

  [[nodiscard]] tl::unexpected<Error> truncated(const char* what) const {
    return fail(ErrorKind::corrupt,
                fmt::format("ends after {} bytes, before the end of its {}", size_, what), name_,
                "copy or build it again");
  }

  Result<void> check_segments() {
    if (header_.e_phentsize != sizeof(Elf64_Phdr)) {
      return fail(ErrorKind::corrupt, "has a damaged header", name_, kExpected);
    }
    for (unsigned i = 0; i < header_.e_phnum; ++i) {
      Elf64_Phdr segment{};
      if (!read(header_.e_phoff + i * sizeof segment, &segment)) return truncated("segment table");
      if (!holds(segment.p_offset, segment.p_filesz)) return truncated("segments");
    }
    return {};
  }

  Result<void> check_sections() {
    if (header_.e_shnum == 0 || header_.e_shentsize != sizeof(Elf64_Shdr) ||
        header_.e_shstrndx >= header_.e_shnum) {
      return fail(ErrorKind::invalid, "has no section table that names its symbols", name_,
                  "strip it with `strip`, which leaves that table, or not at all");
    }
    for (unsigned i = 0; i < header_.e_shnum; ++i) {
      Elf64_Shdr section{};
      if (!read(header_.e_shoff + i * sizeof section, &section)) return truncated("section table");
      const bool is_in_file = section.sh_type != SHT_NOBITS || i == header_.e_shstrndx;
      if (is_in_file && !holds(section.sh_offset, section.sh_size)) return truncated("sections");
      const bool is_symbols = section.sh_type == SHT_SYMTAB || section.sh_type == SHT_DYNSYM;
      if (is_symbols && section.sh_size % sizeof(Elf64_Sym) != 0) {
        return fail(ErrorKind::corrupt, "has a symbol table that ends within a symbol", name_,
                    "copy or build it again");
      }
    }
    return {};
  }

  std::string name_;
  std::ifstream stream_;
  std::uint64_t size_ = 0;
  Elf64_Ehdr header_{};
};

}  // namespace

Result<void> check_library_file(const std::filesystem::path& file) {
  return LibraryFile(file).check();
}

Result<std::string> read_section(const std::filesystem::path& file, std::string_view name) {
  LibraryFile library(file);
  if (auto checked = library.check(); !checked) return tl::unexpected(std::move(checked.error()));
  return library.section(name);
}

}  // namespace autotuned::plugins
