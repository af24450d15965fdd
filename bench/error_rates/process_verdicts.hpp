// SPDX-License-Identifier: Apache-2.0
// Whole trials through the code that decides in production, over a simulated job: pairs of processes that differ by chance,
// and rare stalls.
#pragma once

namespace autotuned::bench {

// Prints a row for each process effect (0 to 3 %) and true gain (0 and 5 %), and one for rare stalls, of `verdicts` trials
// each, as Markdown.
void print_process_verdicts(int verdicts);

}  // namespace autotuned::bench
