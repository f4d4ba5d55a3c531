// SPDX-License-Identifier: MIT
// mutant: the first release gives it back
// fails: acquired twice: gathered once, and there until the last release
//< release
    memory_.give(found->second.weights);
    here_.erase(found);
