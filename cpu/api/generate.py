#!/usr/bin/env python3
"""generate.py WHAT: writes one generated file to stdout, for the Makefile.

WHAT is cudart<MAJOR>/<file> (see runtime_c.py), driver/<file> (see driver_c.py), forward/<file> (see forward_c.py),
launch_attributes.h (see attributes_c.py) or preload.map.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import api  # noqa: E402
import attributes_c  # noqa: E402
import driver_c  # noqa: E402
import forward_c  # noqa: E402
import runtime_c  # noqa: E402


def lines(what):
    for major in api.MAJORS:
        for name, make in runtime_c.MAKERS.items():
            if what == f"cudart{major}/{name}":
                return make(major)
    for folder, makers in (("driver", driver_c.MAKERS), ("forward", forward_c.MAKERS)):
        for name, make in makers.items():
            if what == f"{folder}/{name}":
                return make()
    if what in attributes_c.MAKERS:
        return attributes_c.MAKERS[what]()
    if what == "preload.map":
        return runtime_c.nodes()
    raise SystemExit(f"generate.py: cannot make {what}")


def main():
    try:
        text = "".join(f"{line}\n" for line in lines(sys.argv[1]))
    except api.Wrong as wrong:
        raise SystemExit(f"generate.py: {wrong}") from None
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
