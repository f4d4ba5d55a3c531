#!/bin/sh
# SPDX-License-Identifier: MIT
# lint.sh [ROOT]: the rules of the house, one line for each place that breaks one; status 1 if any.
# lint_sabotage.sh shows for every rule that it can fail.
set -eu
export LC_ALL=C
root=${1:-$(dirname "$0")/../..}
cd "$root"

# Headers of concept tiers that hold bulk loops, or use a library that not all machines have, and so
# may ask the compiler what it has.
bulk=' nn/product.hpp nn/cublas.hpp nn/cublas_fp8.hpp nn/cublas_product.hpp train/inspect.hpp train/adam_moments.hpp '
std=' algorithm any array atomic barrier bit bitset charconv chrono cmath compare complex concepts
 condition_variable coroutine csignal cstdarg cstddef cstdint cstdio cstdlib cstring ctime cctype cerrno
 cfenv cfloat climits cinttypes clocale cwchar deque exception execution filesystem forward_list
 fstream functional future initializer_list iomanip ios iosfwd iostream istream iterator latch limits
 list locale map memory memory_resource mutex new numbers numeric optional ostream queue random ranges
 ratio regex scoped_allocator semaphore set shared_mutex source_location span sstream stack stdexcept
 stop_token streambuf string string_view system_error thread tuple type_traits typeindex typeinfo
 unordered_map unordered_set utility valarray variant vector version '
platform=' cxxabi.h dirent.h elf.h fcntl.h link.h pthread.h sched.h signal.h unistd.h
 sys/ioctl.h sys/mman.h sys/resource.h sys/stat.h sys/types.h sys/wait.h ucontext.h '
sockets=' arpa/inet.h netdb.h netinet/in.h netinet/tcp.h poll.h sys/socket.h '
intrinsics=' immintrin.h arm_neon.h '

lint_header() {
    awk -v file="$1" -v bulk="$bulk" -v std="$std" -v platform="$platform" -v intrinsics="$intrinsics" \
        -v sockets="$sockets" '
        function bad(line, text) { printf "mpt/%s:%d: %s\n", file, line, text; failed = 1 }
        function has(list, word) { return index(list, " " word " ") || index(list, " " word "\n") ||
                                          index(list, "\n" word " ") }
        function tier_of(path) { return (split(path, part, "/") > 1 && part[1] in tiers) ? tiers[part[1]] : -1 }
        BEGIN {
            split("base 0 numeric 1 simt 2 comm 2 kernels 3 nn 4 train 5 dist 6", t, " ")
            for (i = 1; i <= 16; i += 2) tiers[t[i]] = t[i + 1]
            split(file, part, "/"); folder = part[1]; name = part[2]
            tier = tier_of(file)
            if (tier < 0) bad(1, "the folder " folder "/ is no tier: base numeric simt comm kernels nn train dist")
            low = folder ~ /^(base|numeric|simt|comm|kernels)$/
            loops = has(bulk, file)
            meeting = file ~ /^kernels\/(launch|device)\.cuh$/  # where CUDA and the emulator meet
            if ((name ~ /\.cuh$/) != (folder == "kernels")) bad(1, ".cuh is the ending of what lies in kernels/, and of nothing else")
            in_card = 1
        }
        FNR == 1 && $0 != "// SPDX-License-Identifier: MIT" { bad(1, "line 1 is not // SPDX-License-Identifier: MIT") }
        FNR == 2 && $0 != "/// @file " name { bad(2, "line 2 is not /// @file " name) }
        FNR == 3 { if ($0 !~ /^\/\/\/ [^ ].*\. +tier [0-9], needs:/)
                       bad(3, "line 3 is not /// Purpose.   tier N, needs: ...") }
        FNR >= 3 && in_card == 1 {  # tier and needs, up to the first blank line of the card
            if ($0 !~ /^\/\/\/ /) in_card = 2
            else card = card " " substr($0, 5)
        }
        FNR >= 2 && in_card { if ($0 ~ /^\/\/\//) card_lines++; else in_card = 0 }
        in_card == 2 && /^\/\/\/ [A-Z]/ {  # Idea Formula Costs Breaks Source See, padded to column 9
            if ($0 !~ /^\/\/\/ (Idea     |Formula  |Costs    |Breaks   |Source   |See      )[^ ]/)
                bad(FNR, "a paragraph of the card begins with Idea, Formula, Costs, Breaks, Source or See, padded to 9 columns")
            in_see = $0 ~ /^\/\/\/ See/
        }
        in_card == 2 && in_see {  # what a card points at exists
            n = split($0, word, /[^A-Za-z0-9_.\/-]+/)
            for (i = 1; i <= n; i++) {
                w = word[i]; sub(/[.\/]+$/, "", w)
                if (w ~ /^(tests|chapters|docs|bench)\/.*\./) print "exists " FNR " " w
                else if (w ~ /^(base|numeric|simt|comm|kernels|nn|train|dist)\/.*\.(hpp|cuh)$/) print "exists " FNR " mpt/" w
                else if (w ~ /^[a-z0-9_]+\.(hpp|cuh)$/) print "exists " FNR " mpt/*/" w
            }
        }
        {
            line = $0; gsub(/[\200-\277]/, "", line)  # UTF-8: count characters, not bytes
            if (length(line) > 100) bad(FNR, length(line) " columns; 100 are allowed")
            if (line ~ /\t/) bad(FNR, "a tab; indent by 4 spaces")
            if (line ~ /[ \t\r]$/) bad(FNR, "blanks at the end of the line")
            if (line ~ /(^|[^A-Za-z])(TODO|FIXME|XXX|HACK)([^A-Za-z]|$)/) bad(FNR, "a note to oneself (TODO, FIXME, XXX, HACK): do it or drop it")
        }
        /^#pragma once/ { once = 1 }
        /^[ ]*#[ ]*include[ ]*"/ {
            path = $0; sub(/^[^"]*"/, "", path); sub(/".*/, "", path)
            if (path !~ /^mpt\//) { bad(FNR, "\"" path "\": own headers are included as \"mpt/...\""); next }
            sub(/^mpt\//, "", path)
            includes[path] = FNR
            print "edge mpt/" file " mpt/" path
            if ($0 !~ /" +\/\/ [^ ]/) bad(FNR, path ": say behind it what is used from it: // name, name")
            if (folder == "kernels" && path !~ /^kernels\/.*\.cuh$/ && !(meeting && path == "simt/launch.hpp"))
                bad(FNR, "a kernel includes kernels/*.cuh alone, so that nvcc needs no other folder")
            if (tier_of(path) > tier) bad(FNR, "tier " tier " includes " path " of tier " tier_of(path) "; only lower tiers and the own")
            next
        }
        /^[ ]*#[ ]*include[ ]*</ {
            path = $0; sub(/^[^<]*</, "", path); sub(/>.*/, "", path)
            if (has(std, path)) next
            if (has(platform, path)) {
                if (!(folder ~ /^(base|simt|comm|train|dist)$/)) bad(FNR, "<" path ">: POSIX belongs in base, simt, comm, train and dist")
            } else if (has(sockets, path)) {
                if (folder != "comm") bad(FNR, "<" path ">: sockets belong in comm")
            } else if (has(intrinsics, path)) {
                if (!low && !loops) bad(FNR, "<" path ">: intrinsics belong in base, numeric and the bulk loops that lint.sh names")
            } else if (path == "cblas.h") {
                if (file != "nn/product.hpp") bad(FNR, "<cblas.h> belongs in nn/product.hpp alone")
            } else if (path == "cublasLt.h") {
                if (file != "nn/cublas_product.hpp") bad(FNR, "<cublasLt.h> belongs in nn/cublas_product.hpp alone")
            } else if (!(folder ~ /^(comm|simt|kernels)$/ && path ~ /^(mpi|nccl|cuda_[a-z0-9_]+|mma|nvtx3\/[a-zA-Z3]+)\.h(pp)?$/))
                bad(FNR, "<" path ">: mpt/ includes the standard library, POSIX and what CMake found, nothing else")
            next
        }
        /^[ ]*#[ ]*(if|ifdef|ifndef|elif)/ && !low && !loops { bad(FNR, "a branch of the preprocessor in a concept header; it belongs in base, numeric, simt, comm or a bulk loop") }
        /^[ ]*#[ ]*(if|ifdef|ifndef|elif).*(__CUDACC__|MPT_SIMT)/ && folder == "kernels" && !meeting {
            bad(FNR, "the two machines meet in launch.cuh and device.cuh alone: put there what they do differently")
        }
        /^[ ]*#[ ]*define/ {
            macro = $0; sub(/^[ ]*#[ ]*define[ ]+/, "", macro); sub(/[^A-Za-z0-9_].*/, "", macro)
            defined[macro] = FNR
        }
        /^[ ]*#[ ]*undef/ { macro = $0; sub(/^[ ]*#[ ]*undef[ ]+/, "", macro); sub(/[^A-Za-z0-9_].*/, "", macro); delete defined[macro] }
        {
            code = $0; sub(/\/\/.*/, "", code); gsub(/"([^"\\]|\\.)*"/, "\"\"", code)
            if (code ~ /^[ ]*using namespace/ && !(meeting && code ~ /namespace mpt::simt;/)) bad(FNR, "using namespace in a header reaches into every program that includes it")
            if (code ~ /(^|[^A-Za-z0-9_])(_?_?exit|_Exit|quick_exit|abort|terminate)[ ]*\(/) bad(FNR, "a header never ends the program: throw mpt::error")
            if (code ~ /std::(cout|cerr|clog)|(^|[^A-Za-z0-9_])(printf|puts|putchar|perror)[ ]*\(/) bad(FNR, "a header does not print: return the text")
        }
        END {
            if (!once) bad(FNR, "no #pragma once")
            if (card_lines > 18) bad(2, "the card has " card_lines " lines; 18 are allowed")
            for (macro in defined)
                if (!(folder ~ /^(base|simt)$/ && macro ~ /^MPT_/) && !(folder == "simt" && macro ~ /^__[a-z_]+__$/))
                    bad(defined[macro], "the macro " macro " stays defined: #undef it, or name it MPT_... in base/ or simt/")
            stated = card; sub(/ tier [0-9], needs:.*/, "", stated)
            needs = substr(card, length(stated) + 1); stated = needs
            sub(/^ tier /, "", stated); sub(/,.*/, "", stated)
            if (needs != "" && stated != tier) bad(3, "the card says tier " stated ", the folder " folder "/ is tier " tier)
            sub(/.*needs:/, "", needs)
            gsub(/,/, " ", needs)
            n = split(needs, word, /[ ]+/)
            std_only = needs ~ /^ *std +only *$/
            for (i = 1; i <= n; i++) if (word[i] != "" && !std_only) {
                listed[word[i]] = 1
                if (!(word[i] in includes)) bad(3, "the card needs " word[i] ", which is not included")
            }
            for (path in includes) if (!(path in listed)) bad(includes[path], "includes " path ", which the card does not list under needs")
            exit failed
        }' "mpt/$1" || true
}

found=$(
    (cd mpt && find . -name '*.hpp' -o -name '*.cuh') | sed 's|^\./||' | sort | while read -r header; do
        lint_header "$header" | while read -r what rest; do
            case $what in
                edge) echo "edge $rest" ;;
                exists) # shellcheck disable=SC2086  # a name without its folder is looked for in all
                    set -- ${rest#* }
                    [ -e "$1" ] || echo "mpt/$header:${rest%% *}: points at $1, which does not exist" ;;
                *) echo "$what $rest" ;;
            esac
        done
    done
    grep -n '^project(mpt VERSION [0-9]' CMakeLists.txt /dev/null 2>/dev/null |
        sed 's/\(:[0-9]*\):.*/\1: a second version number; the one place is mpt\/base\/version.hpp/' || true
    # Links of the pages lead somewhere, also on a site that shows the Markdown as it is.
    find . -maxdepth 2 \( -path './README.md' -o -path './docs/*.md' \) | sed 's|^\./||' | sort | while read -r page; do
        awk '/^ *```/ { fence = !fence } fence { next } {
                 gsub(/`[^`]*`/, "")
                 while (match($0, /\]\([^)]*\)/)) { print FNR, substr($0, RSTART + 2, RLENGTH - 3); $0 = substr($0, RSTART + RLENGTH) }
             }' "$page" | while read -r line link; do
            case $link in http:*|https:*|mailto:*|'#'*|@ref*) continue ;; esac
            [ -e "$(dirname "$page")/${link%%#*}" ] || echo "$page:$line: the link to $link leads nowhere"
        done
    done
    # Every header has its place on the page that leads from others' words to ours.
    [ ! -e docs/words.md ] || find mpt -name '*.hpp' -o -name '*.cuh' | sort | awk '
        NR == FNR { page = page $0; next }
        !index(page, "](../" $0 ")") { print $0 ":1: docs/words.md does not name it; give it a row, or a place behind the others" }
    ' docs/words.md -
    # The other sources: the same width, no tabs, a licence line.
    find tests chapters exercises bench -name '*.cpp' -o -name '*.hpp' -o -name '*.cu' -o -name '*.cuh' 2>/dev/null | sort | while read -r source; do
        awk -v file="$source" '
            function bad(text) { printf "%s:%d: %s\n", file, FNR, text }
            { line = $0; gsub(/[\200-\277]/, "", line) }
            FNR == 1 && $0 != "// SPDX-License-Identifier: MIT" { bad("line 1 is not // SPDX-License-Identifier: MIT") }
            length(line) > 100 { bad(length(line) " columns; 100 are allowed") }
            line ~ /\t/ { bad("a tab; indent by 4 spaces") }
            line ~ /(^|[^A-Za-z])(TODO|FIXME|XXX|HACK)([^A-Za-z]|$)/ { bad("a note to oneself (TODO, FIXME, XXX, HACK): do it or drop it") }
        ' "$source"
    done
)
if cycle=$(printf '%s\n' "$found" | sed -n 's/^edge //p' | tsort 2>&1 >/dev/null) && [ -z "$cycle" ]; then :; else
    found="$found
$(printf '%s' "$cycle" | sed -n 's/^tsort: \(mpt.*\)/\1/p' | tr '\n' ' ')1: these headers include each other in a circle"
fi
found=$(printf '%s\n' "$found" | grep -v '^edge ' | grep . || true)
if [ -n "$found" ]; then
    printf '%s\n' "$found"
    echo "lint: $(printf '%s\n' "$found" | wc -l) findings"
    exit 1
fi
echo "lint: $(find mpt -name '*.hpp' -o -name '*.cuh' | wc -l) headers are in order"
