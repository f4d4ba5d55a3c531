// SPDX-License-Identifier: MIT
// Saving in an order that survives a crash: chapter 12.
//
// Writing over the old file loses both when the power goes. So the new bytes go under another name
// (name + ".tmp"), are flushed, get the old name by one rename, and the folder is flushed, so that
// the name is on the disk as well. A file system may write names before bytes if nobody asks it
// not to.
#include "exercise.hpp"

void save(disk& d, const std::string& name, const std::string& bytes) {
    //< save: about 5 lines
    const std::string building = name + ".tmp";
    d.write(building, bytes);
    d.flush(building);
    d.rename(building, name);
    d.flush_folder();
    //> throw exercise::todo("save");
}
