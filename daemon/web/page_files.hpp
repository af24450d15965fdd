// SPDX-License-Identifier: Apache-2.0
// The files of daemon/web/page/ and the library that draws its charts, which the program carries as text.
#pragma once

namespace autotuned::daemon {

// page.html, with @PAGE_HEAD@ and @PAGE_END@ where the served page names its files and that of one run holds them.
extern const char* const kWebMarkup;
extern const char* const kWebStyle;  // page.css
extern const char* const kWebIcon;   // icon.svg
extern const char* const
    kWebTexts;  // texts.js, and so on: modules, each after those that it imports
extern const char* const kWebCharts;   // charts.js
extern const char* const kWebParts;    // parts.js
extern const char* const kWebStory;    // story.js
extern const char* const kWebLive;     // live.js
extern const char* const kWebHistory;  // history.js
extern const char* const kWebMain;     // main.js
// Chart.js (MIT) as the package libjs-chart.js brings it, and its licence.
extern const char* const kChartScript;
extern const char* const kChartLicence;

}  // namespace autotuned::daemon
