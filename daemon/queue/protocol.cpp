// SPDX-License-Identifier: Apache-2.0
#include "daemon/queue/protocol.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/error_json.hpp"
#include "base/frame.hpp"
#include "daemon/common/submitted_variables.hpp"

namespace autotuned::daemon {

namespace {

constexpr std::size_t kMaxTextBytes = 4096;  // as long as a path may be
constexpr const char* kWhere = "the request";

Result<std::string> bounded_text(const Json& value, const char* field) {
  auto text = get_string(value, field);
  if (!text) return text;
  if (text->empty() || text->size() > kMaxTextBytes || text->find('\0') != std::string::npos) {
    return fail(ErrorKind::invalid,
                std::string(field) + " must be 1 to " + std::to_string(kMaxTextBytes) +
                    " characters without NUL",
                kWhere);
  }
  return text;
}

bool is_submitted_variable(std::string_view variable) {
  const std::size_t sign = variable.find('=');
  return sign != std::string_view::npos && variable.size() <= kMaxTextBytes &&
         variable.find('\0') == std::string_view::npos &&
         std::ranges::find(submitted_variables(), variable.substr(0, sign)) !=
             submitted_variables().end();
}

}  // namespace

Result<Json> FrameDecoder::next() {
  if (received_.size() < kFrameHeaderBytes) return Json();
  const std::size_t length = announced_length(received_);
  if (length > kMaxRequestBytes) {
    return fail(ErrorKind::invalid,
                "a frame of " + std::to_string(length) + " bytes is announced, at most " +
                    std::to_string(kMaxRequestBytes) + " are allowed",
                kWhere);
  }
  if (received_.size() - kFrameHeaderBytes < length) return Json();
  auto value = parse_json(std::string_view(received_).substr(kFrameHeaderBytes, length), kWhere,
                          kMaxRequestBytes, kMaxRequestDepth);
  received_.erase(0, kFrameHeaderBytes + length);
  if (received_.empty()) received_.shrink_to_fit();
  if (value && !value->is_object()) {
    return fail(ErrorKind::invalid, "a frame must be an object", kWhere);
  }
  return value;
}

Json Submission::to_json() const {
  return {{"token", token},
          {"folder", folder},
          {"device", device},
          {"session", session.to_json()},
          {"environment", environment}};
}

Result<Submission> Submission::from_json(const Json& value) {
  Submission submission;
  auto token = bounded_text(value, "token");
  if (!token) return tl::unexpected(token.error());
  auto folder = bounded_text(value, "folder");
  if (!folder) return tl::unexpected(folder.error());
  auto device = bounded_text(value, "device");
  if (!device) return tl::unexpected(device.error());
  auto session = SessionRequest::from_json(member(value, "session"));
  if (!session) return tl::unexpected(session.error());
  const SessionRequest& request = *session;
  std::vector<std::filesystem::path> paths = request.plugin_folders;
  paths.insert(paths.end(), {*folder, request.history, request.recipe.output_dir});
  for (const auto& path : paths) {
    if (!path.is_absolute() || path.native().find('\0') != std::string::npos) {
      return fail(ErrorKind::invalid, "paths must be absolute", kWhere);
    }
  }
  if (request.recipe.name.size() > kMaxTextBytes ||
      request.recipe.file.native().size() > kMaxTextBytes) {
    return fail(ErrorKind::invalid, "name and file of the recipe are too long", kWhere);
  }
  const Json& variables = member(value, "environment");
  if (!variables.is_array()) {
    return fail(ErrorKind::invalid, "environment must be a list", kWhere);
  }
  for (const Json& variable : variables) {
    if (!variable.is_string() || !is_submitted_variable(variable.get_ref<const std::string&>())) {
      return fail(ErrorKind::invalid, "environment may not hold " + to_line(variable).substr(0, 80),
                  kWhere);
    }
    submission.environment.push_back(variable.get<std::string>());
  }
  submission.token = *std::move(token);
  submission.folder = *std::move(folder);
  submission.device = *std::move(device);
  submission.session = *std::move(session);
  return submission;
}

Result<DaemonRequest> read_request(const Json& frame) {
  const auto protocol = get_integer(frame, "protocol");
  if (!protocol) return tl::unexpected(protocol.error());
  if (*protocol != kDaemonProtocol) {
    return fail(ErrorKind::newer_version,
                "the daemon speaks protocol " + std::to_string(kDaemonProtocol) +
                    ", this program speaks " + std::to_string(*protocol),
                "the daemon",
                "'autotuned stop' and start it again with the version of this program");
  }
  const auto name = get_string(frame, "request");
  if (!name) return tl::unexpected(name.error());
  if (*name == "status") return StatusRequest{};
  if (*name == "stop") return StopRequest{};
  if (*name == "submit") {
    auto submission = Submission::from_json(member(frame, "submission"));
    if (!submission) return tl::unexpected(submission.error());
    return SubmitRequest{*std::move(submission)};
  }
  if (*name == "attach" || *name == "cancel" || *name == "find") {
    auto job = bounded_text(frame, "job");
    if (!job) return tl::unexpected(job.error());
    if (*name == "cancel") return CancelRequest{*std::move(job)};
    if (*name == "find") return FindRequest{*std::move(job)};
    const auto skip = get_integer(frame, "skip");
    if (!skip) return tl::unexpected(skip.error());
    return AttachRequest{*std::move(job), std::max<std::int64_t>(0, *skip)};
  }
  return fail(ErrorKind::invalid, "there is no request '" + name->substr(0, 80) + "'", kWhere);
}

Json error_answer(const Error& error) {
  return {{"protocol", kDaemonProtocol}, {"error", to_json(error)}};
}

}  // namespace autotuned::daemon
