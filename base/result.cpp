// SPDX-License-Identifier: Apache-2.0
#include "base/result.hpp"

#include <cerrno>
#include <system_error>

#include "base/enum_names.hpp"

namespace autotuned {
namespace {

constexpr EnumNames<ErrorKind, 14> kKindNames = {{
    {ErrorKind::invalid, "invalid"},
    {ErrorKind::not_found, "not_found"},
    {ErrorKind::io, "io"},
    {ErrorKind::disk_full, "disk_full"},
    {ErrorKind::permission, "permission"},
    {ErrorKind::busy, "busy"},
    {ErrorKind::corrupt, "corrupt"},
    {ErrorKind::newer_version, "newer_version"},
    {ErrorKind::unsupported, "unsupported"},
    {ErrorKind::out_of_memory, "out_of_memory"},
    {ErrorKind::timeout, "timeout"},
    {ErrorKind::crashed, "crashed"},
    {ErrorKind::cancelled, "cancelled"},
    {ErrorKind::internal, "internal"},
}};

constexpr EnumNames<ExtensionFault, 3> kFaultNames = {{
    {ExtensionFault::failed, "failed"},
    {ExtensionFault::suspected, "suspected"},
    {ExtensionFault::trained_otherwise, "trained_otherwise"},
}};

ErrorKind kind_of_errno(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return ErrorKind::not_found;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return ErrorKind::disk_full;
    case EACCES:
    case EPERM:
    case EROFS:
      return ErrorKind::permission;
    case EAGAIN:
    case EBUSY:
    case ETXTBSY:
      return ErrorKind::busy;
    case ENOMEM:
      return ErrorKind::out_of_memory;
    case ETIMEDOUT:
      return ErrorKind::timeout;
    case EPIPE:
    case ECONNRESET:
    case ESRCH:
      return ErrorKind::crashed;
    case EINTR:
    case ECANCELED:
      return ErrorKind::cancelled;
    case EINVAL:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
      return ErrorKind::invalid;
    case ENOSYS:
    case EOPNOTSUPP:
    case ENOEXEC:
      return ErrorKind::unsupported;
    default:
      return ErrorKind::io;
  }
}

std::string remedy_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::disk_full:
      return "make room on that disk or raise the quota";
    case ErrorKind::permission:
      return "check the owner and the mode";
    default:
      return {};
  }
}

}  // namespace

std::string_view to_string(ErrorKind kind) {
  return enum_name(kKindNames, kind);
}

ErrorKind error_kind_from(std::string_view name) {
  return enum_value(kKindNames, name).value_or(ErrorKind::internal);
}

std::string_view to_string(ExtensionFault fault) {
  return enum_name(kFaultNames, fault);
}

ExtensionFault extension_fault_from(std::string_view name) {
  return enum_value(kFaultNames, name).value_or(ExtensionFault::failed);
}

std::string Error::message() const {
  std::string text;
  if (!where.empty()) text = where + ": ";
  text += what;
  if (!remedy.empty()) text += "; " + remedy;
  return text;
}

Error system_error(int error_number, std::string what, std::string where) {
  const ErrorKind kind = kind_of_errno(error_number);
  what += " (" + std::generic_category().message(error_number) + ")";
  return Error{kind, std::move(what), std::move(where), remedy_of(kind)};
}

}  // namespace autotuned
