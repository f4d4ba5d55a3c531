// SPDX-License-Identifier: MIT
// edit_manifest FOLDER KEY VALUE: another value in a checkpoint's state, with the right sums, as
// another version of the program might have written it. Its folder's `latest` then names this one.
#include "mpt/base/file.hpp"             // output_file
#include "mpt/train/find_checkpoint.hpp" // read_manifest, write_manifest

#include <cstdio>
#include <filesystem>
#include <string>

int main(int argc, char** argv) {
    if (argc != 4) return 2;
    try {
        const std::string folder = argv[1];
        mpt::manifest m = mpt::read_manifest(folder);
        m.state[argv[2]] = argv[3];
        const auto put = [](const std::string& path, const std::string& text) {
            mpt::output_file f("test", path);
            f.write(text);
            f.commit();
        };
        put(folder + "/manifest.json", mpt::write_manifest(m));
        const std::filesystem::path at(folder);
        put((at.parent_path() / "latest").string(),
            at.filename().string() + ' ' + mpt::hex8(m.crc) + '\n');
    } catch (const std::exception& e) {
        std::fprintf(stderr, "edit_manifest: %s\n", e.what());
        return 1;
    }
}
