// SPDX-License-Identifier: MIT
// mutant: writes over the old file
// fails: a crash at any call leaves the old bytes or the new
//< save
    d.write(name, bytes);
    d.flush(name);
    d.flush_folder();
