# exported.awk HEADER...: the names by which libflyt-client.so exports what these headers mark with CORE_API or
# TRACE_API, as pragmas: flyt_ and the name in the sources. A program may have a function of its own that is called
# graph_create or core_copy, and the loader would give it to our libraries in place of ours.
/^#/ { next }
{ text = text " " $0 }
END {
    gsub(/__attribute__\(\([^;]*\)\)/, "", text)
    while (match(text, /(CORE|TRACE)_API [^;]*;/)) {
        declaration = substr(text, RSTART, RLENGTH - 1)
        text = substr(text, RSTART + RLENGTH)
        if (declaration ~ /^[^(]*\(\*/)         # a pointer to a function: void (*name)(…)
            sub(/^[^(]*\(\*/, "", declaration)
        sub(/ *([()].*)?$/, "", declaration)
        sub(/.*[ *]/, "", declaration)
        print "#pragma redefine_extname " declaration " flyt_" declaration
    }
}
