// SPDX-License-Identifier: Apache-2.0
#include "plugins/host/library_file.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

namespace autotuned::plugins {
namespace {

#if defined(__x86_64__)
constexpr unsigned kOurMachine = EM_X86_64;
constexpr unsigned kRelative = R_X86_64_RELATIVE;  // the library's start and the addend
constexpr unsigned kAbsolute = R_X86_64_64;        // a symbol's address and the addend
#elif defined(__aarch64__)
constexpr unsigned kOurMachine = EM_AARCH64;
constexpr unsigned kRelative = R_AARCH64_RELATIVE;
constexpr unsigned kAbsolute = R_AARCH64_ABS64;
#else
#error "name the ELF machine and the relocations of this architecture"
#endif

constexpr const char* kAliasRule =
    "the alias is a constant that holds the address of the library's descriptor, itself a constant";
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

// An exported symbol. Addresses are counted from the start of the library.
struct Symbol {
  std::string name;
  std::uint64_t address = 0;
  unsigned type = STT_NOTYPE;
};

// Eight bytes of a library in memory.
struct Word {
  std::uint64_t value = 0;
  bool is_elsewhere = false;  // the address of something that another library has
};

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

  // The others REQUIRE check().

  std::string section(std::string_view name) {
    const Elf64_Shdr& names = sections_.at(header_.e_shstrndx);
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type == SHT_NULL || section.sh_name >= names.sh_size) continue;
      if (text(names.sh_offset + section.sh_name, names.sh_size - section.sh_name) == name) {
        return text(section.sh_offset, section.sh_size);
      }
    }
    return {};
  }

  // The symbols that others can find whose names start with `start`.
  std::vector<Symbol> exported(std::string_view start) {
    std::vector<Symbol> found;
    for (const Elf64_Shdr& table : sections_) {
      if (table.sh_type != SHT_DYNSYM || table.sh_link >= sections_.size()) continue;
      const Elf64_Shdr& names_section = sections_[table.sh_link];
      const std::string names = bytes(names_section.sh_offset, names_section.sh_size);
      for (const Elf64_Sym& symbol : entries<Elf64_Sym>(table)) {
        if (symbol.st_shndx == SHN_UNDEF || ELF64_ST_BIND(symbol.st_info) == STB_LOCAL ||
            symbol.st_name >= names.size()) {
          continue;
        }
        const char* const name = names.c_str() + symbol.st_name;
        if (!std::string_view(name, ::strnlen(name, kLongestName)).starts_with(start)) continue;
        found.push_back({.name = std::string(name, ::strnlen(name, kLongestName)),
                         .address = symbol.st_value,
                         .type = static_cast<unsigned>(ELF64_ST_TYPE(symbol.st_info))});
      }
    }
    return found;
  }

  // The memory as the dynamic linker leaves it. Nothing if the file has no bytes for the address: such memory starts as
  // zeros.
  std::optional<Word> word(std::uint64_t address) {
    const std::optional<Place> place = place_of(address);
    Word word;
    if (!place || place->left < sizeof word.value || !read(place->at, &word.value)) {
      return std::nullopt;
    }
    for (const Elf64_Shdr& table : sections_) {
      if (table.sh_type != SHT_RELA || (table.sh_flags & SHF_ALLOC) == 0) continue;
      for (const Elf64_Rela& relocation : entries<Elf64_Rela>(table)) {
        if (relocation.r_offset == address) word = relocated(relocation, table.sh_link);
      }
    }
    return word;
  }

  // The text at an address, up to its NUL; nothing where it does not lie in the file.
  std::optional<std::string> text_at(std::uint64_t address) {
    const std::optional<Place> place = place_of(address);
    if (!place) return std::nullopt;
    for (const std::uint64_t most : {kShortText, kLongestText}) {
      const std::string all = bytes(place->at, std::min(place->left, most));
      if (const std::size_t end = all.find('\0'); end != std::string::npos) {
        return all.substr(0, end);
      }
    }
    return std::nullopt;
  }

 private:
  static constexpr std::size_t kLongestName = 256;
  static constexpr std::uint64_t kShortText = 256;  // most are
  static constexpr std::uint64_t kLongestText = 1U << 20U;

  // In the file, with the bytes that follow there in the same segment.
  struct Place {
    std::uint64_t at = 0;
    std::uint64_t left = 0;
  };

  Word relocated(const Elf64_Rela& relocation, std::size_t symbol_table) {
    const auto addend = static_cast<std::uint64_t>(relocation.r_addend);
    const auto type = static_cast<unsigned>(ELF64_R_TYPE(relocation.r_info));
    if (type == kRelative) return {.value = addend};
    const std::uint64_t index = ELF64_R_SYM(relocation.r_info);
    if (type != kAbsolute || symbol_table >= sections_.size() ||
        index >= sections_[symbol_table].sh_size / sizeof(Elf64_Sym)) {
      return {.is_elsewhere = true};
    }
    Elf64_Sym symbol{};
    const bool is_here = read(sections_[symbol_table].sh_offset + index * sizeof symbol, &symbol) &&
                         symbol.st_shndx != SHN_UNDEF &&
                         ELF64_ST_TYPE(symbol.st_info) != STT_GNU_IFUNC;
    if (!is_here) return {.is_elsewhere = true};
    return {.value = symbol.st_value + addend};
  }

  [[nodiscard]] std::optional<Place> place_of(std::uint64_t address) const {
    for (const Elf64_Phdr& segment : segments_) {
      if (segment.p_type != PT_LOAD || address < segment.p_vaddr) continue;
      const std::uint64_t within = address - segment.p_vaddr;
      if (within >= segment.p_filesz) continue;
      return Place{.at = segment.p_offset + within, .left = segment.p_filesz - within};
    }
    return std::nullopt;
  }

  std::string bytes(std::uint64_t at, std::uint64_t count) {
    if (!holds(at, count)) return {};
    std::string bytes(static_cast<std::size_t>(count), '\0');
    stream_.seekg(static_cast<std::streamoff>(at));
    if (!stream_.read(bytes.data(), static_cast<std::streamsize>(count))) return {};
    return bytes;
  }

  template <class T>
  std::vector<T> entries(const Elf64_Shdr& table) {
    const std::string all = bytes(table.sh_offset, table.sh_size);
    std::vector<T> entries(all.size() / sizeof(T));
    if (!entries.empty()) std::memcpy(entries.data(), all.data(), entries.size() * sizeof(T));
    return entries;
  }

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
    std::string text = bytes(at, std::min<std::uint64_t>(most, kLongestText));
    text.resize(std::min(text.find('\0'), text.size()));
    return text;
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
      segments_.push_back(segment);
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
      sections_.push_back(section);
    }
    return {};
  }

  std::string name_;
  std::ifstream stream_;
  std::uint64_t size_ = 0;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Phdr> segments_;
  std::vector<Elf64_Shdr> sections_;
};

}  // namespace

Result<void> check_library_file(const std::filesystem::path& file) {
  return LibraryFile(file).check();
}

Result<void> check_alias(const std::filesystem::path& file, const std::string& alias) {
  LibraryFile library(file);
  if (auto checked = library.check(); !checked) return checked;
  const std::string stem = alias.substr(0, alias.size() - 1);
  const std::vector<Symbol> symbols = library.exported(stem);
  const auto exported = std::ranges::find(symbols, alias, &Symbol::name);
  if (exported != symbols.end()) {
    if (exported->type == STT_OBJECT || exported->type == STT_NOTYPE) return {};
    return fail(ErrorKind::invalid,
                fmt::format("has an alias {} that is no pointer but {}", alias,
                            exported->type == STT_FUNC ? "a function" : "something else"),
                file.string(), kAliasRule);
  }
  if (!symbols.empty()) {
    return fail(ErrorKind::unsupported,
                fmt::format("speaks version {} of the plugin surface, this program version 1",
                            symbols.front().name.substr(stem.size())),
                file.string(), "build it against this program's plugins/sdk");
  }
  return fail(ErrorKind::invalid, "is a shared library but no plugin", file.string(),
              fmt::format("a plugin exports the alias {}", alias));
}

Result<std::vector<DescriptorField>> read_descriptor(const std::filesystem::path& file,
                                                     const std::string& alias,
                                                     std::span<const FieldType> fields) {
  LibraryFile library(file);
  if (auto checked = library.check(); !checked) return tl::unexpected(std::move(checked.error()));
  const std::vector<Symbol> symbols = library.exported(alias);
  const auto exported = std::ranges::find(symbols, alias, &Symbol::name);
  const std::optional<Word> descriptor =
      exported == symbols.end() ? std::nullopt : library.word(exported->address);
  if (!descriptor || descriptor->is_elsewhere || !library.word(descriptor->value)) {
    return fail(ErrorKind::invalid, fmt::format("has an alias {} that is no pointer", alias),
                file.string(), kAliasRule);
  }
  std::vector<DescriptorField> values;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const Word word = library.word(descriptor->value + i * sizeof(std::uint64_t)).value_or(Word{});
    DescriptorField& field = values.emplace_back();
    field.is_set = word.is_elsewhere || word.value != 0;
    if (fields[i] == FieldType::number) field.number = word.value;
    if (fields[i] != FieldType::text || !field.is_set || word.is_elsewhere) continue;
    field.text = library.text_at(word.value).value_or("");
  }
  return values;
}

Result<std::string> read_section(const std::filesystem::path& file, std::string_view name) {
  LibraryFile library(file);
  if (auto checked = library.check(); !checked) return tl::unexpected(std::move(checked.error()));
  return library.section(name);
}

}  // namespace autotuned::plugins
