// SPDX-License-Identifier: Apache-2.0
// .npy files made for a test, whole or broken.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

namespace autotuned::input {

// Version 1.0 with this dictionary, padded as NumPy does.
inline std::string npy_file(std::string dictionary, const std::string& numbers) {
  while ((10 + dictionary.size() + 1) % 64 != 0)
    dictionary += ' ';
  dictionary += '\n';
  std::string file = "\x93NUMPY";
  file += '\x01';
  file += '\0';
  file += static_cast<char>(dictionary.size() & 0xffU);
  file += static_cast<char>(dictionary.size() >> 8U);
  return file + dictionary + numbers;
}

inline std::string npy_file(const std::string& type, const std::string& shape,
                            const std::string& numbers) {
  return npy_file("{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }",
                  numbers);
}

// As they lie in memory.
template <class T>
std::string bytes_of_numbers(const std::vector<T>& numbers) {
  std::string bytes(numbers.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

}  // namespace autotuned::input
