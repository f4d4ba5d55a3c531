// SPDX-License-Identifier: MIT
// mutant: the old file is removed before the new one has its name
// fails: a crash at any call leaves the old bytes or the new
//< save
    const std::string building = name + ".tmp";
    d.write(building, bytes);
    d.flush(building);
    d.remove(name);
    d.flush_folder();
    d.rename(building, name);
    d.flush_folder();
