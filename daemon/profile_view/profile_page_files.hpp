// SPDX-License-Identifier: Apache-2.0
// The files of daemon/profile_view/page/, which the program carries as text.
#pragma once

namespace autotuned::daemon {

// profile.html, with @PAGE_STYLE@, @PAGE_SCRIPT@ and @PAGE_DATA@ where the rest goes, and the hashes of the first two in
// its policy.
extern const char* const kPageMarkup;
extern const char* const kPageStyle;     // profile.css
extern const char* const kPageScript;    // profile.js
extern const char* const kPageTimeline;  // timeline.js
extern const char* const kPagePlots;     // plots.js, which stands behind both

}  // namespace autotuned::daemon
