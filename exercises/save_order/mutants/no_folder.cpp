// SPDX-License-Identifier: MIT
// mutant: the folder is not flushed
// fails: the new bytes are there for certain
//< save
    const std::string building = name + ".tmp";
    d.write(building, bytes);
    d.flush(building);
    d.rename(building, name);
