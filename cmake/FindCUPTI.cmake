# SPDX-License-Identifier: Apache-2.0
# The CUPTI and CUDA headers from the wheels that scripts/setup unpacked.
#
# Input:  AUTOTUNED_DEPS_DIR
# Output: CUPTI::CUPTI (headers), CUPTI_LIBRARY (the file to open at run time)
#
# Nothing is linked: LibTorch brings libcupti.so.13 into the trainer already.
set(_cuda "${AUTOTUNED_DEPS_DIR}/nvidia/cu13")
find_path(CUPTI_INCLUDE_DIR cupti.h PATHS "${_cuda}/include" NO_DEFAULT_PATH)
find_file(CUPTI_LIBRARY libcupti.so.13 PATHS "${_cuda}/lib" NO_DEFAULT_PATH)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CUPTI
  REQUIRED_VARS CUPTI_INCLUDE_DIR CUPTI_LIBRARY
  REASON_FAILURE_MESSAGE "cupti.h is not in ${_cuda}/include. Run scripts/setup.")

if(CUPTI_FOUND AND NOT TARGET CUPTI::CUPTI)
  add_library(CUPTI::CUPTI INTERFACE IMPORTED GLOBAL)
  target_include_directories(CUPTI::CUPTI SYSTEM INTERFACE "${CUPTI_INCLUDE_DIR}")
endif()
mark_as_advanced(CUPTI_INCLUDE_DIR CUPTI_LIBRARY)
