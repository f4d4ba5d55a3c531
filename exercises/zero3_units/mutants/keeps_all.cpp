// SPDX-License-Identifier: MIT
// mutant: nothing is given back
// fails: only what is in use is whole
//< release
    --found->second.users;
