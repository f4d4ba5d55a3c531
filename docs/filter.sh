#!/bin/sh
# SPDX-License-Identifier: MIT
# docs/filter.sh FILE: what Doxygen reads instead of FILE. One line in, one line out.
#   headers   the card's words Idea, Formula, Costs, Breaks, Source, See become paragraphs; without
#             this Doxygen would join them. Formula, and lines that are set in by 4, keep their shape.
#   Markdown  a line > Code: [FILE, REGION](its path) becomes the region's code; on GitHub it is a
#             link; $x$ and ```math blocks become formulas; links to sources become links to their pages;
#             bold `code`, which Doxygen 1.9 shows with its asterisks, becomes bold.
export LC_ALL=C
case $1 in
*.hpp|*.cuh)
    awk '
        function escape(text,   out, n, part, i) {  # all but `code` is plain text
            n = split(text, part, "`")
            out = ""
            for (i = 1; i <= n; i++) {
                if (i % 2 || i == n) {
                    gsub(/[\\@*#~$%]/, "\\\\&", part[i])
                    gsub(/&/, "\\&amp;", part[i])
                    gsub(/</, "\\&lt;", part[i]); gsub(/>/, "\\&gt;", part[i])
                    gsub(/"/, "\\&quot;", part[i])
                    gsub(/--/, "\\-\\-", part[i])
                }
                out = out (i > 1 ? "`" : "") part[i]
            }
            return out
        }
        function close_block() {
            if (block == "formula") text = " @endcardformula"
            else if (block == "code") text = " @endcardcode"
            else text = ""
            block = ""
            return text
        }
        NR == 1 || done { print; next }
        $0 !~ /^\/\/\// { printf "%s", hold close_block() (hold != "" ? "\n" : ""); hold = ""; done = 1; print; next }
        {
            if (NR > 2 && hold != "") held = 1; else held = 0
            line = substr($0, 5)
            if (NR == 2) { print; next }
            if (!seen_blank) {
                if (line == "") { seen_blank = 1; print "///"; next }
                if (NR == 3 && match(line, / +tier [0-9], needs:/)) {
                    print "/// @brief " escape(substr(line, 1, RSTART - 1)) " @details Tier " \
                          substr(line, RSTART + RLENGTH - 9, 1) ", needs:" escape(substr(line, RSTART + RLENGTH))
                } else print "/// " escape(line)
                next
            }
            if (match(line, /^[A-Z][a-z]+ +/) && RLENGTH == 9) {
                if (hold != "") print hold close_block()
                word = line; sub(/ .*/, "", word)
                rest = substr(line, 10)
                if (word == "Formula") { block = "formula"; hold = "/// @cardformula " rest }
                else { hold = "/// @card{" word "} " escape(rest) }
                next
            }
            print hold
            if (block == "formula") { hold = "///   " substr(line, 10); next }
            if (line ~ /^             /) {
                hold = "/// " (block == "code" ? "  " : "@cardcode ") substr(line, 14); block = "code"
            } else {
                if (block == "code") hold = "/// @endcardcode " escape(substr(line, 10))
                else hold = "/// " escape(substr(line, 10))
                block = ""
            }
        }
        END { if (!done && hold != "") print hold close_block() }' "$1" ;;
*.md)
    awk '
        BEGIN { d = sprintf("%c", 36) }
        function inline(text,   out, n, part, i, t) {
            while (match(text, /\*\*[^* ][^*]*`[^*]*\*\*/) || match(text, /\*\*`[^*]*\*\*/))  # bold `code`
                text = substr(text, 1, RSTART - 1) "<b>" substr(text, RSTART + 2, RLENGTH - 4) "</b>" \
                       substr(text, RSTART + RLENGTH)
            n = split(text, part, "`")
            out = ""
            for (i = 1; i <= n; i++) {
                t = part[i]
                if (i % 2 || i == n) {
                    while (match(t, /\$[^ $0-9][^$]*\$/) || match(t, /\$[0-9][^$]*[^ $]\$/)) {
                        out = out (i > 1 && !carried ? "`" : "") substr(t, 1, RSTART - 1) "\\f" d substr(t, RSTART + 1, RLENGTH - 2) "\\f" d
                        carried = 1
                        t = substr(t, RSTART + RLENGTH)
                    }
                    while (match(t, /\]\([.\/]*(mpt|chapters)\/[A-Za-z0-9_.\/]*\.(hpp|cpp|cuh)\)/)) {
                        link = substr(t, RSTART + 2, RLENGTH - 3)
                        sub(/^[.\/]*/, "", link)
                        out = out (i > 1 && !carried ? "`" : "") substr(t, 1, RSTART) "(@ref " link ")"
                        carried = 1
                        t = substr(t, RSTART + RLENGTH)
                    }
                }
                out = out (i > 1 && !carried ? "`" : "") t
                carried = 0
            }
            return out
        }
        /^ *```math/ { print "\\f["; math = 1; next }
        math && /^ *```/ { print "\\f]"; math = 0; next }
        math { print; next }
        /^ *```/ { fence = !fence; print; next }
        fence || /^    / { print; next }
        /^> Code: \[[^],]*, [^]]*\]\([^)]*\)$/ {
            region = $0; sub(/^[^,]*, /, "", region); sub(/\].*/, "", region)
            path = $0; sub(/.*\(/, "", path); sub(/\)$/, "", path); sub(/^(\.\.\/)*[a-z]*\//, "", path)
            print "\\snippet " path " " region
            next
        }
        { print inline($0) }' "$1" ;;
*) cat "$1" ;;
esac
