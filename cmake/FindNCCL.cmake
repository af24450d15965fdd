# SPDX-License-Identifier: Apache-2.0
# The headers of NCCL, and those of CUDA's libraries that LibTorch's header of its NCCL group includes, from the wheels
# that scripts/setup --cuda unpacked. Without them ranks train on the CPU alone.
#
# Input:  AUTOTUNED_DEPS_DIR
# Output: NCCL_FOUND, NCCL::Headers
#
# Nothing is linked: LibTorch's CUDA half brings libnccl.so.2 into the trainer.
find_path(NCCL_INCLUDE_DIR nccl.h PATHS "${AUTOTUNED_DEPS_DIR}/nvidia/nccl/include" NO_DEFAULT_PATH)
set(_nccl_parts NCCL_INCLUDE_DIR)
foreach(_header cublasLt cusolverDn cusparse)
  find_path(NCCL_${_header}_INCLUDE_DIR ${_header}.h
    PATHS "${AUTOTUNED_DEPS_DIR}/nvidia/cu13/include" NO_DEFAULT_PATH)
  list(APPEND _nccl_parts NCCL_${_header}_INCLUDE_DIR)
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NCCL
  REQUIRED_VARS ${_nccl_parts}
  REASON_FAILURE_MESSAGE "ranks will train on the CPU alone. For GPUs, run scripts/setup --cuda and configure again.")

if(NCCL_FOUND AND NOT TARGET NCCL::Headers)
  add_library(NCCL::Headers INTERFACE IMPORTED GLOBAL)
  target_include_directories(NCCL::Headers SYSTEM INTERFACE
    "${NCCL_INCLUDE_DIR}" "${NCCL_cublasLt_INCLUDE_DIR}")
  target_compile_definitions(NCCL::Headers INTERFACE USE_C10D_NCCL)
endif()
mark_as_advanced(${_nccl_parts})
