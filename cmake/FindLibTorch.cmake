# SPDX-License-Identifier: Apache-2.0
# LibTorch as it lies in the unpacked torch wheel, without PyTorch's own CMake package: that one
# wants a CUDA compiler, which building `autotuned` does not need.
#
# Input:  AUTOTUNED_DEPS_DIR
# Output: LibTorch::LibTorch, LibTorch_VERSION, LibTorch_BUILD_RPATH, LibTorch_INSTALL_RPATH
#
# Linked are torch_cpu and c10 alone. libtorch_cuda.so needs the GPU libraries of
# `scripts/setup --cuda`; the trainer opens it at run time where a GPU and those libraries exist.
set(_deps "${AUTOTUNED_DEPS_DIR}")
set(_torch "${_deps}/torch")

if(EXISTS "${_torch}/version.py")
  file(STRINGS "${_torch}/version.py" _line REGEX "^__version__")
  string(REGEX REPLACE "^__version__ = '([0-9.]+).*'$" "\\1" LibTorch_VERSION "${_line}")
endif()

# Exactly one version: trainer extensions are compared with it, and measured results depend on it.
if(LibTorch_VERSION AND LibTorch_FIND_VERSION AND
   NOT LibTorch_VERSION VERSION_EQUAL LibTorch_FIND_VERSION)
  message(FATAL_ERROR
    "LibTorch ${LibTorch_VERSION} is in ${_torch}, but autotuned needs exactly "
    "${LibTorch_FIND_VERSION}.\nRun scripts/setup, or point AUTOTUNED_DEPS_DIR at a folder that "
    "holds torch ${LibTorch_FIND_VERSION}.")
endif()

find_path(LibTorch_INCLUDE_DIR torch/library.h PATHS "${_torch}/include" NO_DEFAULT_PATH)
find_library(LibTorch_CPU_LIBRARY torch_cpu PATHS "${_torch}/lib" NO_DEFAULT_PATH)
find_library(LibTorch_C10_LIBRARY c10 PATHS "${_torch}/lib" NO_DEFAULT_PATH)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY LibTorch_INCLUDE_DIR
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE
    "LibTorch is not in ${_torch}.\nRun scripts/setup, or point AUTOTUNED_DEPS_DIR at the folder \
that holds torch, or build without the trainer: -DAUTOTUNED_WITH_LIBTORCH=OFF")

if(LibTorch_FOUND AND NOT TARGET LibTorch::LibTorch)
  add_library(LibTorch::LibTorch INTERFACE IMPORTED GLOBAL)
  target_include_directories(LibTorch::LibTorch SYSTEM INTERFACE
    "${_torch}/include" "${_torch}/include/torch/csrc/api/include")
  # Relative first, so that build/ and .deps/ can be moved together (scripts/package). A file of
  # options, because CMake escapes the `$` of $ORIGIN once too often.
  file(RELATIVE_PATH _from_bin "${CMAKE_BINARY_DIR}/bin" "${_torch}/lib")
  set(LibTorch_INSTALL_RPATH "${_torch}/lib")
  set(LibTorch_BUILD_RPATH "$ORIGIN/${_from_bin}:${LibTorch_INSTALL_RPATH}")
  set(_options "${CMAKE_BINARY_DIR}/CMakeFiles/libtorch_link_options.txt")
  file(CONFIGURE OUTPUT "${_options}" @ONLY CONTENT
    "-Wl,-rpath,$ORIGIN/@_from_bin@\n-Wl,-rpath,@_torch@/lib\n")
  target_link_options(LibTorch::LibTorch INTERFACE
    "@${_options}"
    "LINKER:-rpath-link,${_deps}/nvidia/cu13/lib"
    # RPATH, not RUNPATH: LD_LIBRARY_PATH must not slip in another LibTorch.
    "LINKER:--disable-new-dtags")
  # torch_cpu registers its operators in static constructors; the linker sees no use of it.
  target_link_libraries(LibTorch::LibTorch INTERFACE
    "-Wl,--push-state,--no-as-needed"
    "${LibTorch_CPU_LIBRARY}" "${LibTorch_C10_LIBRARY}"
    "-Wl,--pop-state")
endif()
mark_as_advanced(LibTorch_INCLUDE_DIR LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY)
