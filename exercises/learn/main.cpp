// SPDX-License-Identifier: MIT
// learn -- the learner's loop: templates, tests on every save, hints, grades. `./run learn`
// starts it.
#include "commands.hpp"
#include "mutate.hpp"
#include "prove.hpp"
#include "screen.hpp"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <poll.h>
#include <termios.h>

namespace {

const std::filesystem::path root = MPT_ROOT, build = MPT_BUILD;
std::filesystem::path exercises = root / "exercises";

std::vector<exercise_info> every_exercise() {
    mpt::check(std::filesystem::is_directory(exercises), "exercises ", exercises.string(),
               ": no such folder; leave --exercises out for mpt's own");
    return read_exercises(root, exercises);
}

struct loop {
    screen see;
    std::vector<exercise_info> all = every_exercise();
    workshop shop{MPT_WORKSHOP};

    const exercise_info& find(const std::string& id) const {
        for (const exercise_info& e : all)
            if (e.id == id) return e;
        std::string near;
        for (const exercise_info& e : all)
            if (e.id.find(id) != std::string::npos || id.find(e.id) != std::string::npos)
                near += (near.empty() ? "; perhaps " : ", ") + e.id;
        throw mpt::error("learn: no exercise is called " + id + near +
                         "; './run learn list' has all");
    }
    /// The first that is not done; nullptr: all are.
    const exercise_info* next() const {
        for (const exercise_info& e : all)
            if (shop.status(e) != "done") return &e;
        return nullptr;
    }
    const exercise_info& named_or_next(const std::string& id) const {
        if (!id.empty()) return find(id);
        const exercise_info* e = next();
        mpt::check(e, "learn: all exercises are done; name one to do it again");
        return *e;
    }

    void begin() {
        if (const int written = shop.begin(all)) {
            shop.save();
            see.say(std::to_string(written) + " templates are in " + shop.folder().string());
            std::string output; // the new answers become targets
            mpt::check(ran({"cmake", build.string()}, output), "learn: cmake fails: ", output);
        }
    }

    attempt test(const exercise_info& e, std::string seed, bool every) {
        if (seed.empty()) seed = fresh_seed();
        seed_of(seed);
        see.task(e, shop);
        const attempt a = grade_answer(e, build, seed, parameters_of(e, shop.student));
        see.show(a, shop.answer(e).string(), every);
        remember(a);
        if (a.right()) {
            const exercise_info* then = next();
            see.say(then ? "next        ./run learn test " + then->id : "all exercises are done");
        }
        return a;
    }
    void remember(const attempt& a) {
        progress_of& p = shop.done[a.exercise->id];
        p.score = a.score;
        p.answer = shop.sum(*a.exercise);
        shop.save();
    }

    std::string section(const exercise_info& e, const std::string& title) const {
        const std::string text = whole_file(e.file("hints.md")), head = "## " + title + "\n";
        const std::size_t at = text.find(head);
        mpt::check(at != std::string::npos, "learn: ", e.id, " has no ", title);
        const std::size_t from = at + head.size(), end = text.find("\n## ", from);
        return text.substr(from, end == std::string::npos ? end : end - from);
    }

    void list(bool as_json) const {
        if (as_json) std::printf("[");
        const char* comma = "\n";
        for (const exercise_info& e : all) {
            const std::string status = shop.status(e);
            if (as_json) {
                std::printf("%s{\"id\":%s,\"chapter\":%s,\"title\":%s,\"points\":%d,\"minutes\":%d,"
                            "\"status\":%s}",
                            comma, mpt::json::quote(e.id).c_str(),
                            mpt::json::quote(e.chapter).c_str(), mpt::json::quote(e.title).c_str(),
                            e.points, e.minutes, mpt::json::quote(status).c_str());
                comma = ",\n";
            } else {
                std::printf("%-24s %-8s %2d points  %3d min  %02d %-18s %s\n", e.id.c_str(),
                            status.c_str(), e.points, e.minutes, e.number, e.chapter.c_str(),
                            e.title.c_str());
            }
        }
        if (as_json) std::printf("\n]\n");
    }

    int watch();
};

/// Keys one at a time while it lives, where there is a terminal.
class raw_keys {
public:
    explicit raw_keys(bool on) : on_(on && tcgetattr(0, &old_) == 0) {
        if (!on_) return;
        termios now = old_;
        now.c_lflag &= ~tcflag_t(ICANON | ECHO);
        tcsetattr(0, TCSANOW, &now);
    }
    ~raw_keys() {
        if (on_) tcsetattr(0, TCSANOW, &old_);
    }
    /// A key within `ms` milliseconds; 0: none; 'q' where input is at its end.
    char key(int ms) const {
        pollfd in{0, POLLIN, 0};
        if (poll(&in, 1, ms) <= 0) return 0;
        char c = 0;
        return read(0, &c, 1) == 1 ? c : 'q';
    }

private:
    bool on_;
    termios old_{};
};

int loop::watch() {
    begin();
    if (!see.terminal()) { // nobody presses keys: say where one stands, and what comes next
        see.progress(shop, all);
        if (const exercise_info* e = next()) {
            see.task(*e, shop);
            see.say("next        ./run learn test " + e->id);
        }
        return 0;
    }
    const raw_keys keys(true);
    int level = 0;
    for (const exercise_info* e = next();; e = next()) {
        if (!e) {
            see.progress(shop, all);
            see.say(see.green("all exercises are done"));
            return 0;
        }
        see.progress(shop, all);
        std::filesystem::file_time_type seen{};
        for (;;) {
            const auto saved = std::filesystem::last_write_time(shop.answer(*e));
            if (saved != seen) {
                seen = saved;
                const attempt a = test(*e, "", false);
                if (a.right()) break;
                see.say(see.bold("save the file to test it again") +
                        "; h hint, l list, n next, r reset, q quit");
            }
            switch (keys.key(300)) {
            case 'q':
                return 0;
            case 'h':
                level = level % 3 + 1;
                see.say(section(*e, "Hint " + std::to_string(level)));
                break;
            case 'l':
                list(false);
                std::fflush(stdout);
                break;
            case 'r': {
                const auto old = shop.reset(*e);
                see.say("the template again; your answer is in " + old.string());
                break;
            }
            case 'n': { // the one behind this one that is not done
                const exercise_info* then = nullptr;
                for (const exercise_info* x = e + 1; x != all.data() + all.size() && !then; ++x)
                    if (shop.status(*x) != "done") then = x;
                if (then)
                    e = then, seen = {}, level = 0;
                else
                    see.say("there is none behind it");
                break;
            }
            default:
                break;
            }
        }
        level = 0;
    }
}

std::string report(const std::vector<attempt>& all, const std::string& format) {
    if (format == "json") return reports::json(all);
    if (format == "gradescope") return reports::gradescope(all);
    if (format == "junit") return reports::junit(all);
    return reports::text(all);
}

int run(int count, char** argument) {
    CLI::App app{"mpt's exercises: write an answer, see at once what is wrong with it",
                 "./run learn"};
    app.footer("Without a command: watch the next exercise and test it whenever you save.");
    app.require_subcommand(0, 1);
    app.add_option("--exercises", exercises, "for maintainers: another folder of exercises");
    std::string id, seed, format = "text", out, student, solution, mutant_file;
    int level = 1, most = 0;
    bool every = false, as_json = false, spoil = false;
    int status = 0;
    const auto with_id = [&](CLI::App* c, bool needed) {
        auto* o = c->add_option("ID", id, "of the exercise");
        if (needed) o->required();
    };
    const auto on = [](CLI::App* c, std::function<void()> f) { c->final_callback(std::move(f)); };

    auto* init = app.add_subcommand("init", "write the templates that are not there yet");
    init->add_option("--student", student,
                     "your name or number: numbers in some exercises go with it");
    on(init, [&] {
        loop l;
        if (!student.empty()) l.shop.student = student;
        l.begin();
        l.shop.save();
    });
    auto* list = app.add_subcommand("list", "all exercises, one a line on stdout");
    list->add_flag("--json", as_json, "as JSON");
    on(list, [&] { loop().list(as_json); });
    auto* test = app.add_subcommand("test", "build and test one answer; without ID the next");
    with_id(test, false);
    test->add_option("--seed", seed, "of the numbers to try; without it new ones");
    test->add_flag("--all", every, "show every part that is wrong, not only the first");
    on(test, [&] {
        loop l;
        l.begin();
        status = l.test(l.named_or_next(id), seed, every).right() ? 0 : 1;
    });
    auto* hint = app.add_subcommand("hint", "a hint; --level 2 and 3 say more");
    with_id(hint, false);
    hint->add_option("--level", level, "1, 2 or 3")->check(CLI::Range(1, 3))->capture_default_str();
    on(hint, [&] {
        const loop l;
        std::printf("%s\n",
                    l.section(l.named_or_next(id), "Hint " + std::to_string(level)).c_str());
    });
    auto* solve =
        app.add_subcommand("solution", "the solution and its reason, once yours is right");
    with_id(solve, true);
    solve->add_flag("--spoil", spoil, "before that; grades say so");
    on(solve, [&] {
        loop l;
        const exercise_info& e = l.find(id);
        mpt::check(std::filesystem::exists(e.file("solution.cpp")),
                   "learn: this copy has no solutions");
        mpt::check(spoil || l.shop.status(e) == "done", "learn: ", id,
                   " is not done yet; './run learn hint ", id,
                   "' helps, --spoil shows the solution all the same");
        if (l.shop.status(e) != "done") l.shop.done[id].spoiled = true, l.shop.save();
        std::printf("%s\n%s\n", whole_file(e.file("solution.cpp")).c_str(),
                    l.section(e, "Solution").c_str());
    });
    auto* reset = app.add_subcommand("reset", "the template again; your answer is kept beside");
    with_id(reset, true);
    on(reset, [&] {
        loop l;
        const auto old = l.shop.reset(l.find(id));
        l.see.say("the template again" +
                  (old.empty() ? "" : "; your answer is in " + old.string()));
    });
    auto* next = app.add_subcommand("next", "what comes next");
    on(next, [&] {
        const loop l;
        const exercise_info* e = l.next();
        l.see.progress(l.shop, l.all);
        if (e) l.see.task(*e, l.shop), std::printf("%s\n", e->id.c_str());
    });
    auto* grade = app.add_subcommand("grade", "test all answers and report");
    grade->add_option("--format", format, "text, json, junit or gradescope")
        ->check(CLI::IsMember({"text", "json", "junit", "gradescope"}))
        ->capture_default_str();
    grade->add_option("--seed", seed, "of the numbers to try; without it new ones");
    grade->add_option("--out", out, "a file; without it stdout");
    on(grade, [&] {
        if (!seed.empty()) seed_of(seed);
        loop l;
        l.begin();
        std::vector<attempt> attempts;
        for (const exercise_info& e : l.all) {
            l.see.say("[" + std::to_string(attempts.size() + 1) + "/" +
                      std::to_string(l.all.size()) + "] " + e.id);
            attempts.push_back(grade_answer(e, build, seed.empty() ? fresh_seed() : seed,
                                            parameters_of(e, l.shop.student)));
            l.remember(attempts.back());
        }
        const std::string text = report(attempts, format);
        if (out.empty()) {
            std::fwrite(text.data(), 1, text.size(), stdout);
        } else {
            mpt::output_file file("grades", out);
            file.write(text);
            file.commit();
        }
    });
    auto* proof =
        app.add_subcommand("prove", "for maintainers: is the grader of this exercise right?");
    with_id(proof, true);
    on(proof, [&] {
        const loop l;
        for (const std::string& line : prove(l.find(id), build / "bin")) {
            std::printf("%s\n", line.c_str());
            status = 1;
        }
    });
    auto* change =
        app.add_subcommand("mutate", "for maintainers: what small changes of the solution "
                                     "does the grader of ID (without it: of all) notice?");
    with_id(change, false);
    change->add_option("--count", most, "changes of an exercise at most; 0: all")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    change->add_option("--seed", seed, "of the choice");
    on(change, [&] {
        const loop l;
        const std::uint64_t chosen = seed.empty() ? std::random_device()() : seed_of(seed);
        int tried = 0, noticed = 0, equivalent = 0;
        for (const exercise_info& e : l.all) {
            if (!id.empty() && e.id != id) continue;
            const mutation_run r = mutate(e, build, most, chosen, [&](const mutation_run& now) {
                if (l.see.terminal())
                    std::fprintf(stderr, "\r%-24s %d changes, %d noticed ", e.id.c_str(), now.tried,
                                 now.noticed);
            });
            std::fprintf(stderr, "\n");
            for (const struct change& c : r.survivors)
                std::printf("%s: not noticed: %s => %s\n", e.id.c_str(), c.was.c_str(),
                            c.is.c_str());
            tried += r.tried, noticed += r.noticed, equivalent += r.equivalent;
        }
        const int real = tried - equivalent;
        mpt::check(real > 0, "mutate: nothing was changed, so nothing is known");
        std::printf("%d of %d changes noticed, %.1f %%; %d more change no answer\n", noticed, real,
                    100.0 * noticed / real, equivalent);
        status = noticed >= 0.98 * real ? 0 : 1;
    });
    auto* make =
        app.add_subcommand("compose", "for maintainers: a template, or a mutant, from a solution");
    make->add_option("SOLUTION", solution, "solution.cpp")->required();
    make->add_option("MUTANT", mutant_file, "mutants/NAME.cpp");
    make->add_option("--out", out, "a file; without it stdout");
    on(make, [&] {
        mutant m;
        if (!mutant_file.empty()) m = read_mutant(whole_file(mutant_file), mutant_file);
        const std::string text =
            compose(whole_file(solution), solution, mutant_file.empty() ? nullptr : &m);
        if (out.empty()) {
            std::fwrite(text.data(), 1, text.size(), stdout);
        } else {
            mpt::output_file file("exercise", out);
            file.write(text);
            file.commit();
        }
    });

    if (const auto ended = parse(app, "learn", count, argument)) return *ended;
    return app.get_subcommands().empty() ? loop().watch() : status;
}

} // namespace

int main(int count, char** argument) {
    return guarded([&] { return run(count, argument); });
}
