// SPDX-License-Identifier: MIT
// occupancy_map.hpp -- occupancy over generations of GPUs and sizes of blocks, as a picture.
#pragma once
#include "figure.hpp" // figure: frame and colours

#include "mpt/simt/occupancy.hpp" // occupancy_of, multiprocessor_of, block_needs

#include <cstdio>
#include <string>
#include <vector>

struct generation {
    int capability;
    const char* name;
    int lanes; // fp32 results a multiprocessor and cycle: CUDA C Programming Guide, throughput of
               // arithmetic instructions
};
inline const std::vector<generation>& generations() {
    static const std::vector<generation> all = {
        {20, "Fermi", 32}, {35, "Kepler", 192}, {52, "Maxwell", 128},    {60, "Pascal", 64},
        {70, "Volta", 64}, {75, "Turing", 64},  {80, "Ampere", 64},      {86, "Ampere", 128},
        {89, "Ada", 128},  {90, "Hopper", 128}, {100, "Blackwell", 128}, {120, "Blackwell", 128},
    };
    return all;
}
inline std::string dotted(int capability) { // 86: "8.6"
    return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

inline mpt::simt::occupancy occupancy_on(int capability, const mpt::simt::block_needs& b) {
    return mpt::simt::occupancy_of(mpt::simt::multiprocessor_of(capability), b);
}

// A line for each generation: blocks and warps that live at once; passes: cycles that a
// multiply-add of 1024 threads takes on the lanes.
inline void print_occupancy(const mpt::simt::block_needs& b) {
    std::printf("\n%d threads a block, %d registers a thread, %zu bytes of shared memory\n"
                "%-9s %4s %6s %14s  %-22s %5s %6s\n",
                b.threads, b.registers, b.shared, "", "", "blocks", "warps", "limited by", "lanes",
                "passes");
    for (const generation& g : generations()) {
        const mpt::simt::occupancy o = occupancy_on(g.capability, b);
        std::printf("%-9s %4s %6d %2d of %2d %4.0f%%  %-22s %5d %6.3g\n", g.name,
                    dotted(g.capability).c_str(), o.blocks, o.warps, o.of_warps, 100 * o.part(),
                    o.limits().c_str(), g.lanes, 1024. / g.lanes);
    }
}

// A cell for each generation and size of a block: as full as the multiprocessor is of warps, in the
// colour of what there is too little of.
class occupancy_map {
public:
    occupancy_map(int registers, std::size_t shared) : registers_(registers), shared_(shared) {}

    std::string svg() const {
        figure f(
            width, top + row * double(generations().size()) + 64,
            "Occupancy by compute capability and threads of a block",
            "A table: a row for each GPU from Fermi to Blackwell, a column for each size of a "
            "block from 32 to 1024 threads; each cell counts warps and shows what limits them");
        f.text(left, 24, "Warps that live on a multiprocessor", figure::large);
        f.text(left, 44,
               std::to_string(registers_) + " registers a thread, " + std::to_string(shared_) +
                   " bytes of shared memory a block; full: all warps that it can hold",
               figure::soft_text());
        for (std::size_t i = 0; i < sizes().size(); ++i)
            f.text(x(i) + cell / 2, top - 8, std::to_string(sizes()[i]), figure::centred);
        double y = top;
        for (const generation& g : generations()) {
            f.text(left - 12, y + 19, std::string(g.name) + " " + dotted(g.capability),
                   figure::ends);
            for (std::size_t i = 0; i < sizes().size(); ++i) one(f, x(i), y, g, sizes()[i]);
            y += row;
        }
        f.text(left, y + 16, "threads of a block; limited by", figure::soft_text());
        double at = left + 200;
        for (const char* limit : {"warps", "registers", "shared memory", "blocks"}) {
            f.out << "<rect x=\"" << at << "\" y=\"" << y + 6 << "\" width=\"12\" height=\"12\" "
                  << figure::tint(hue(limit)) << "/>\n";
            f.text(at + 18, y + 16, limit);
            at += 40 + 8 * double(std::string(limit).size());
        }
        f.text(left, y + 38, "The number counts warps; 0: such a block cannot run there",
               figure::soft_text());
        return f.svg();
    }
    // False when the file cannot be written.
    bool save(const std::string& path) const { return save_svg(path, svg()); }

private:
    static constexpr double width = 760, left = 128, top = 78, cell = 58, row = 30;
    static double x(std::size_t i) { return left + double(i) * (cell + 3); }
    static const std::vector<int>& sizes() {
        static const std::vector<int> all = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024};
        return all;
    }
    static std::size_t hue(const std::string& limit) {
        if (limit.find("warps") == 0) return 0;
        if (limit.find("registers") == 0) return 1;
        return limit.find("shared") == 0 ? 2 : 3;
    }
    void one(figure& f, double x, double y, const generation& g, int threads) const {
        const mpt::simt::occupancy o = occupancy_on(g.capability, {threads, registers_, shared_});
        f.out << "<rect x=\"" << x << "\" y=\"" << y << "\" width=\"" << cell << "\" height=\""
              << row - 3 << "\" " << figure::cell_ground() << "/><rect x=\"" << x << "\" y=\"" << y
              << "\" width=\"" << cell * o.part() << "\" height=\"" << row - 3 << "\" "
              << figure::tint(hue(o.limits())) << "/>\n";
        f.text(x + 6, y + 18, std::to_string(o.warps));
    }

    int registers_;
    std::size_t shared_;
};
