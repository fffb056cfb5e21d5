"""attributes_c.py: the attributes of launches: their numbers, where they are allowed, who looks at their values."""

import api

BITS = {"launch": "ATTRIBUTE_OF_LAUNCHES", "node": "ATTRIBUTE_OF_NODES", "stream": "ATTRIBUTE_OF_STREAMS",
        "wire": "ATTRIBUTE_TRAVELS"}
HEAD = """\
/* Made by cpu/api/generate.py from launch_attributes.api. cpu/api/README.md says what the words mean. */
#ifndef API_LAUNCH_ATTRIBUTES_H
#define API_LAUNCH_ATTRIBUTES_H

#include <stdbool.h>
"""


def numbers(rows):
    yield "enum {"
    for row in rows:
        yield f"    LAUNCH_ATTRIBUTE_{row.name} = {row.number},"
    yield f"    LAUNCH_ATTRIBUTE_LAST = {rows[-1].number}"
    yield "};"


def places(rows):
    """Where each is allowed, as bits, and a function that looks there."""
    words = ", ".join(f"{BITS[place]} = {1 << bit}" for bit, place in enumerate(api.PLACES))
    yield f"enum {{ {words} }};"
    yield "/* Whether the attribute is allowed in all these places. */"
    yield "static inline bool launch_attribute_has(int id, unsigned places)"
    yield "{"
    yield "    static const unsigned char of[LAUNCH_ATTRIBUTE_LAST + 1] = {"
    for row in rows:
        yield f"        [{row.number}] = {' | '.join(BITS[place] for place in row.places)},"
    yield "    };"
    yield "    return id >= 0 && id <= LAUNCH_ATTRIBUTE_LAST && (of[id] & places) == places;"
    yield "}"


def lists(rows):
    """Macros with a row for each attribute whose value is looked at, and for each that streams have."""
    checks = [f"CHECK({row.number}, {row.check})" for row in rows if row.check]
    yield "#define LAUNCH_ATTRIBUTE_CHECKS(CHECK) " + " ".join(checks)
    kinds = [f"KIND({row.number}, {row.size}, {row.usual})" for row in rows if "stream" in row.places]
    yield "#define LAUNCH_ATTRIBUTES_OF_STREAMS(KIND) " + " ".join(kinds)


def header():
    rows = api.launch_attributes()
    yield HEAD
    yield from numbers(rows)
    yield from places(rows)
    yield from lists(rows)
    yield "#endif"


MAKERS = {"launch_attributes.h": header}
