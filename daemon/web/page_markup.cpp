// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/page_markup.hpp"

#include <utility>

#include "base/digest.hpp"
#include "daemon/web/page_files.hpp"

namespace autotuned::daemon {

namespace {

// Scripts, styles and requests from here alone; none of them inline.
constexpr const char* kServedPolicy =
    "default-src 'self'; base-uri 'none'; form-action 'none'; object-src 'none'; "
    "frame-ancestors 'none'";

constexpr const char* kServedHead =
    "<link rel=\"icon\" href=\"files/icon.svg\">\n"
    "<link rel=\"stylesheet\" href=\"files/page.css\">\n"
    "<script defer src=\"files/chart.js\"></script>\n"
    "<script type=\"module\" src=\"files/page.js\"></script>";
constexpr const char* kServedText =
    "<p>Without it: <code>autotuned history</code> lists the runs, <code>autotuned explain "
    "RUN</code> "
    "tells about one.</p>";
constexpr const char* kServedEnd = "<p><a href=\"files/licence.txt\">licence of Chart.js</a></p>";

void replace(std::string& text, std::string_view mark, std::string_view by) {
  const std::size_t at = text.find(mark);
  if (at != std::string::npos) text.replace(at, mark.size(), by);
}

const std::string& script() {
  static const std::string kJoined = joined_modules(
      {kWebTexts, kWebParts, kWebCharts, kWebStory, kWebLive, kWebHistory, kWebMain});
  return kJoined;
}

std::string as_markup(std::string_view text) {
  std::string markup;
  for (const char c : text) {
    if (c == '&') {
      markup += "&amp;";
    } else if (c == '<') {
      markup += "&lt;";
    } else {
      markup += c;
    }
  }
  return markup;
}

// In a script element every '<' as an escape of JSON: neither its end nor a comment can occur.
std::string as_data(const Json& json) {
  std::string text = to_line(json);
  for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at))
    text.replace(at, 1, "\\u003c");
  return text;
}

std::string hash_source(std::string_view content) {
  Sha256 digest;
  digest.update(content);
  return "'sha256-" + digest.finish_base64() + "'";
}

}  // namespace

std::string joined_modules(const std::vector<std::string_view>& modules) {
  std::string joined;
  for (std::string_view module : modules) {
    while (!module.empty()) {
      const std::size_t end = module.find('\n');
      std::string_view line = module.substr(0, end);
      module.remove_prefix(end == std::string_view::npos ? module.size() : end + 1);
      if (line.starts_with("import ")) continue;
      constexpr std::string_view kExport = "export ";
      if (line.starts_with(kExport)) line.remove_prefix(kExport.size());
      joined.append(line).append("\n");
    }
  }
  return joined;
}

std::optional<WebAnswer> page_file(std::string_view name) {
  const auto file = [](std::string type, std::string body) {
    return WebAnswer{.type = std::move(type), .body = std::move(body), .headers = {}};
  };
  if (name == "page.html") {
    WebAnswer page = file("text/html; charset=utf-8", kWebMarkup);
    page.headers = {{"Content-Security-Policy", kServedPolicy}};
    replace(page.body, "@PAGE_HEAD@", kServedHead);
    replace(page.body, "@PAGE_TEXT@", kServedText);
    replace(page.body, "@PAGE_END@", kServedEnd);
    return page;
  }
  if (name == "files/page.css") return file("text/css; charset=utf-8", kWebStyle);
  if (name == "files/page.js") return file("text/javascript; charset=utf-8", script());
  if (name == "files/chart.js") return file("text/javascript; charset=utf-8", kChartScript);
  if (name == "files/icon.svg") return file("image/svg+xml", kWebIcon);
  if (name == "files/licence.txt") return file("text/plain; charset=utf-8", kChartLicence);
  return std::nullopt;
}

std::string page_of_run(const Json& run, std::string_view text) {
  const std::string policy = "default-src 'none'; base-uri 'none'; form-action 'none'; style-src " +
                             hash_source(kWebStyle) + "; script-src " + hash_source(kChartScript) +
                             " " + hash_source(script());
  const std::string head = "<meta http-equiv=\"Content-Security-Policy\" content=\"" + policy +
                           "\">\n<style>" + kWebStyle + "</style>\n<script>" + kChartScript +
                           "</script>\n<script type=\"module\">" + script() + "</script>";
  const std::string end = "<details><summary>licence of Chart.js</summary><pre>" +
                          as_markup(kChartLicence) +
                          "</pre></details>\n<script type=\"application/json\" id=\"run\">" +
                          as_data(run) + "</script>";
  std::string page = kWebMarkup;
  // Inserted text could contain an earlier mark, so the last mark is replaced first.
  replace(page, "@PAGE_END@", end);
  replace(page, "@PAGE_TEXT@", "<pre>" + as_markup(text) + "</pre>");
  replace(page, "@PAGE_HEAD@", head);
  return page;
}

}  // namespace autotuned::daemon
