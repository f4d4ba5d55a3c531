// SPDX-License-Identifier: MIT
// mutant: the bytes are not flushed before the rename
// fails: a crash at any call leaves the old bytes or the new
//< save
    const std::string building = name + ".tmp";
    d.write(building, bytes);
    d.rename(building, name);
    d.flush(name);
    d.flush_folder();
