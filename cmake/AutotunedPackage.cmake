# SPDX-License-Identifier: Apache-2.0
# What others build plugins with: headers, templates and the CMake package. They lie below the build
# folder as they do below an installation prefix, so that both are used alike:
#
#   bin/                      autotuned, autotuned-trainer
#   lib/autotuned/plugins/    the built-in plugins
#   lib/cmake/autotuned/      find_package(autotuned)
#   include/autotuned/        "plugins/sdk/plugin.hpp"
#   share/autotuned/templates/   what `autotuned plugins new` fills in
#   share/autotuned/recipe.schema.json   the JSON Schema of recipes, for editors (daemon/CMakeLists.txt)
#
# The folders are fixed: the programs find each other and their plugins from their own place.
include_guard(GLOBAL)
include(CMakePackageConfigHelpers)

# autotuned_share(FOLDER FILES...): these files in that folder, below the build and when installed.
function(autotuned_share folder)
  foreach(file IN LISTS ARGN)
    cmake_path(GET file FILENAME leaf)
    configure_file("${file}" "${CMAKE_BINARY_DIR}/${folder}/${leaf}" COPYONLY)
    install(FILES "${file}" DESTINATION "${folder}")
  endforeach()
endfunction()

set(_sdk "${CMAKE_SOURCE_DIR}/plugins/sdk")
autotuned_share(include/autotuned/plugins/sdk
  "${_sdk}/autotuned_plugin.h" "${_sdk}/autotuned_trainer.h" "${_sdk}/built_plugin.hpp"
  "${_sdk}/built_trainer.hpp" "${_sdk}/extension.hpp" "${_sdk}/operator.hpp"
  "${_sdk}/parameters.hpp" "${_sdk}/plugin.hpp" "${_sdk}/situation.hpp" "${_sdk}/workload.hpp" "${_sdk}/README.md")
foreach(kind extension policy workload yaml)
  file(GLOB _templates CONFIGURE_DEPENDS "${_sdk}/templates/${kind}/*.in")
  autotuned_share(share/autotuned/templates/${kind} ${_templates})
endforeach()

set(_version "${CMAKE_BINARY_DIR}/autotunedConfigVersion.cmake")
write_basic_package_version_file("${_version}" COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
# Extensions and workloads are built with the LibTorch of the trainer.
set(_libtorch_version)
set(_libtorch_folder)
if(AUTOTUNED_WITH_LIBTORCH)
  set(_libtorch_version "${LibTorch_VERSION}")
  set(_libtorch_folder "${AUTOTUNED_DEPS_DIR}/torch")
endif()
set(_libtorch "${CMAKE_BINARY_DIR}/autotunedLibTorch.cmake")
configure_file("${CMAKE_SOURCE_DIR}/cmake/package/autotunedLibTorch.cmake.in" "${_libtorch}" @ONLY)
autotuned_share(lib/cmake/autotuned
  "${CMAKE_SOURCE_DIR}/cmake/package/autotunedConfig.cmake" "${_libtorch}" "${_version}")
install(FILES "${CMAKE_SOURCE_DIR}/LICENSE" DESTINATION share/doc/autotuned)
