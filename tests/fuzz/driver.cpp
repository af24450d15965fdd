// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target where libFuzzer is not: replays files, then feeds mutations of them.
//
//   TARGET [--runs N] [--seconds N] [--seed N] CORPUS...
//
// Every file of the corpus (files or folders) is run once; then mutations until one of the limits is
// reached (without any there are none), or SIGINT or SIGTERM comes. Whatever ends the process leaves the
// input behind as crash-TARGET-PID in the current folder, which becomes a file of the corpus once it is
// understood.
#include <fcntl.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/target.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxBytes = 64U << 10U;
constexpr int kMaxSecondsPerInput = 20;

// What is being run, for the handlers below.
std::string input;
std::array<char, 256> crash_name{};

void save_input() {
  const int file = ::open(crash_name.data(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return;
  const bool is_saved = ::write(file, input.data(), input.size()) >= 0;
  ::close(file);
  if (is_saved) std::fprintf(stderr, "input saved as %s\n", crash_name.data());
}

void on_signal(int number) {
  if (number == SIGALRM) std::fputs("an input takes too long\n", stderr);
  save_input();
  std::signal(number, SIG_DFL);
  std::raise(number == SIGALRM ? SIGKILL : number);
}

volatile std::sig_atomic_t is_stopped = 0;

void on_stop(int) {
  is_stopped = 1;
}

void watch() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_set_death_callback(save_input);
  std::signal(SIGABRT, on_signal);
#else
  for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL})
    std::signal(number, on_signal);
#endif
  std::signal(SIGALRM, on_signal);
  std::signal(SIGTERM, on_stop);
  std::signal(SIGINT, on_stop);
}

void run_input() {
  // From a block of exactly this size, so that a read past the end is seen.
  const std::vector<std::uint8_t> exact(input.begin(), input.end());
  const itimerval limit{{0, 0}, {kMaxSecondsPerInput, 0}};
  ::setitimer(ITIMER_REAL, &limit, nullptr);
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

std::vector<std::string> read_corpus(const std::vector<fs::path>& places) {
  std::vector<fs::path> files;
  for (const fs::path& place : places) {
    if (!fs::is_directory(place)) {
      files.push_back(place);
      continue;
    }
    for (const auto& entry : fs::directory_iterator(place))
      files.push_back(entry.path());
  }
  std::ranges::sort(files);
  std::vector<std::string> corpus;
  for (const fs::path& file : files) {
    std::ifstream stream(file, std::ios::binary);
    if (!stream) {
      std::fprintf(stderr, "cannot read %s\n", file.c_str());
      std::exit(2);
    }
    corpus.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  return corpus;
}

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-';
}

// Words of the corpus, and what often goes wrong.
std::vector<std::string> dictionary_of(const std::vector<std::string>& corpus) {
  std::vector<std::string> words = {"",
                                    "0",
                                    "-1",
                                    "1e999",
                                    "-1e-999",
                                    "9223372036854775807",
                                    "-9223372036854775808",
                                    "null",
                                    "true",
                                    "NaN",
                                    "1e308",
                                    "0x7f",
                                    "18446744073709551616",
                                    "\xff\xff\xff\xff",
                                    "{",
                                    "}",
                                    "[",
                                    "]",
                                    "\"",
                                    ":",
                                    ",",
                                    "\n",
                                    "  - ",
                                    "*a",
                                    "&a ",
                                    "\\u0000",
                                    "\xc3",
                                    "\t",
                                    "..",
                                    "%",
                                    "''",
                                    std::string(300, '['),
                                    "!!str",
                                    "---",
                                    "2.5e-3",
                                    "\r\n",
                                    "#",
                                    std::string(4, '\0')};
  for (const std::string& text : corpus) {
    for (std::size_t at = 0; at < text.size() && words.size() < 5000; ++at) {
      std::size_t end = at;
      while (end < text.size() && is_word(text[end]))
        ++end;
      if (end - at >= 2 && end - at <= 40) words.push_back(text.substr(at, end - at));
      at = std::max(at, end);
    }
  }
  std::ranges::sort(words);
  words.erase(std::unique(words.begin(), words.end()), words.end());
  return words;
}

class Mutator {
 public:
  Mutator(const std::vector<std::string>& corpus, std::uint64_t seed)
      : corpus_(&corpus), words_(dictionary_of(corpus)), random_(seed) {}

  void next(std::string& text) {
    text = (*corpus_)[below(corpus_->size())];
    // Mostly few changes: many at once only break the syntax.
    for (std::size_t left = 1 + below(below(8) == 0 ? 24 : 4); left > 0; --left)
      change(text);
    if (text.size() > kMaxBytes) text.resize(kMaxBytes);
  }

 private:
  std::size_t below(std::size_t limit) { return random_() % limit; }

  void change(std::string& text) {
    const std::size_t at = below(text.size() + 1);
    const std::size_t length = std::min(below(16), text.size() - at);
    const std::string& word = words_[below(words_.size())];
    switch (below(10)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(random_());
        break;
      case 2:
        text.erase(at, length);
        break;
      case 3:
        text.insert(at, text.substr(below(text.size() + 1), below(64)));
        break;
      case 4:
        text.insert(at, word);
        break;
      case 5:
      case 6:
        replace_word(text, at, word);
        break;
      case 7: {
        const std::string& other = (*corpus_)[below(corpus_->size())];
        text.replace(at, length, other.substr(below(other.size() + 1), below(200)));
        break;
      }
      case 8:
        if (below(8) == 0) text.resize(at);
        break;
      default:
        for (std::size_t i = at; i < std::min(at + 4, text.size()) && below(3) == 0; ++i)
          text[i] = static_cast<char>(random_());
    }
  }

  // Puts `word` where another one stands.
  static void replace_word(std::string& text, std::size_t at, const std::string& word) {
    while (at < text.size() && !is_word(text[at]))
      ++at;
    std::size_t end = at;
    while (end < text.size() && is_word(text[end]))
      ++end;
    while (at > 0 && is_word(text[at - 1]))
      --at;
    text.replace(at, end - at, word);
  }

  const std::vector<std::string>* corpus_;
  std::vector<std::string> words_;
  std::mt19937_64 random_;
};

struct Options {
  std::uint64_t runs = 0;
  std::uint64_t seconds = 0;
  std::uint64_t seed = std::random_device()();
  std::vector<fs::path> corpus;
};

Options read_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    std::uint64_t* const number = name == "--runs"      ? &options.runs
                                  : name == "--seconds" ? &options.seconds
                                  : name == "--seed"    ? &options.seed
                                                        : nullptr;
    if (number == nullptr) {
      options.corpus.emplace_back(name);
    } else if (++i < argc) {
      *number = std::strtoull(argv[i], nullptr, 10);
    }
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  using Clock = std::chrono::steady_clock;
  const Options options = read_options(argc, argv);
  const std::vector<std::string> corpus = read_corpus(options.corpus);
  if (corpus.empty()) {
    std::fputs("usage: TARGET [--runs N] [--seconds N] [--seed N] CORPUS...\n", stderr);
    return 2;
  }
  std::snprintf(crash_name.data(), crash_name.size(), "crash-%s-%d",
                fs::path(argv[0]).filename().c_str(), ::getpid());
  watch();
  const auto start = Clock::now();
  for (const std::string& kept : corpus) {
    input = kept;
    run_input();
  }
  std::uint64_t done = 0;
  if (options.runs > 0 || options.seconds > 0) {
    constexpr auto kUnlimited = std::numeric_limits<std::uint64_t>::max();
    const std::uint64_t runs = options.runs > 0 ? options.runs : kUnlimited;
    const auto end = options.seconds > 0 ? start + std::chrono::seconds(options.seconds)
                                         : Clock::time_point::max();
    Mutator mutator(corpus, options.seed);
    for (; done < runs && Clock::now() < end && is_stopped == 0; ++done) {
      mutator.next(input);
      run_input();
    }
  }
  const std::chrono::duration<double> took = Clock::now() - start;
  std::printf("%zu kept inputs, %llu mutations, seed %llu, %.1f s\n", corpus.size(),
              static_cast<unsigned long long>(done), static_cast<unsigned long long>(options.seed),
              took.count());
  return 0;
}
