// SPDX-License-Identifier: MIT
// occupancy_map.hpp -- occupancy over generations of GPUs and sizes of blocks, as a picture.
#pragma once
#include "mpt/simt/occupancy.hpp" // occupancy_of, multiprocessor_of, block_needs

#include <cstdio>
#include <fstream>
#include <sstream>
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
        {20, "Fermi", 32},    {35, "Kepler", 192}, {52, "Maxwell", 128},    {60, "Pascal", 64},
        {70, "Volta", 64},    {75, "Turing", 64},  {80, "Ampere", 64},      {86, "Ampere", 128},
        {89, "Ada", 128},     {90, "Hopper", 128}, {100, "Blackwell", 128}, {120, "Blackwell", 128},
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
        std::ostringstream out;
        const double height = top + row * double(generations().size()) + 64;
        out << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << width << ' ' << height
            << "\" role=\"img\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#222\">\n"
               "<title>Occupancy by compute capability and threads of a block</title>\n"
               // Attributes say light; the style sheet, where it is read at all, may say dark.
               "<style>@media(prefers-color-scheme:dark){text{fill:#ddd}.paper{fill:#161616}"
               ".cell{fill:#2a2a2a}.soft{fill:#999}}</style>\n"
               "<rect width=\"100%\" height=\"100%\" class=\"paper\" fill=\"#fff\"/>\n";
        text(out, left, 24, "Warps that live on a multiprocessor", "font-size=\"16\"");
        text(out, left, 44,
             std::to_string(registers_) + " registers a thread, " + std::to_string(shared_) +
                 " bytes of shared memory a block; full: all warps that it can hold",
             "class=\"soft\" fill=\"#666\"");
        for (std::size_t i = 0; i < sizes().size(); ++i)
            text(out, x(i) + cell / 2, top - 8, std::to_string(sizes()[i]),
                 "text-anchor=\"middle\"");
        double y = top;
        for (const generation& g : generations()) {
            text(out, left - 12, y + 19, std::string(g.name) + " " + dotted(g.capability),
                 "text-anchor=\"end\"");
            for (std::size_t i = 0; i < sizes().size(); ++i) one(out, x(i), y, g, sizes()[i]);
            y += row;
        }
        text(out, left, y + 16, "threads of a block; limited by", "class=\"soft\" fill=\"#666\"");
        double at = left + 200;
        for (const char* limit : {"warps", "registers", "shared memory", "blocks"}) {
            out << "<rect x=\"" << at << "\" y=\"" << y + 6 << "\" width=\"12\" height=\"12\" "
                << "fill=\"" << colour(limit) << "\"/>\n";
            text(out, at + 18, y + 16, limit);
            at += 40 + 8 * double(std::string(limit).size());
        }
        text(out, left, y + 38, "The number counts warps; 0: such a block cannot run there",
             "class=\"soft\" fill=\"#666\"");
        out << "</svg>\n";
        return out.str();
    }
    // False when the file cannot be written.
    bool save(const std::string& path) const {
        std::ofstream file(path);
        file << svg();
        return bool(file.flush());
    }

private:
    static constexpr double width = 760, left = 128, top = 78, cell = 58, row = 30;
    static double x(std::size_t i) { return left + double(i) * (cell + 3); }
    static const std::vector<int>& sizes() {
        static const std::vector<int> all = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024};
        return all;
    }
    static const char* colour(const std::string& limit) { // told apart without colour vision
        if (limit.find("warps") == 0) return "#56b4e9";
        if (limit.find("registers") == 0) return "#e69f00";
        return limit.find("shared") == 0 ? "#009e73" : "#cc79a7";
    }
    static void text(std::ostringstream& out, double x, double y, const std::string& what,
                     const char* look = "") {
        out << "<text x=\"" << x << "\" y=\"" << y << "\" " << look << '>' << what << "</text>\n";
    }
    void one(std::ostringstream& out, double x, double y, const generation& g, int threads) const {
        const mpt::simt::occupancy o = occupancy_on(g.capability, {threads, registers_, shared_});
        out << "<rect x=\"" << x << "\" y=\"" << y << "\" width=\"" << cell << "\" height=\""
            << row - 3 << "\" class=\"cell\" fill=\"#eee\"/><rect x=\"" << x << "\" y=\"" << y
            << "\" width=\"" << cell * o.part() << "\" height=\"" << row - 3 << "\" fill=\""
            << colour(o.limits()) << "\"/>\n";
        text(out, x + 6, y + 18, std::to_string(o.warps),
             o.part() > 0.3 ? "style=\"fill:#111\"" : "font-weight=\"bold\"");
    }

    int registers_;
    std::size_t shared_;
};
