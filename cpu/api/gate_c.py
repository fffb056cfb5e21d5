"""gate_c.py: a call of every entry, for the test that each passes the gate (tests/core/gate_entries.c)."""

# The type is a pointer, and still no scratch memory will do: the body would take it for an object of its own.
NULL_PARAMETERS = ("fatCubinHandle", "table")


def argument(parameter):
    if parameter.type.endswith("*") and parameter.name not in NULL_PARAMETERS:
        return f"({parameter.type})scratch"
    return f"({parameter.type}){{0}}"


def calls(forms, with_prototypes):
    """CALL(name, gated, call) of each. forms: (name, prototype, gated, parameters)."""
    yield "/* Made by cpu/api/generate.py. */"
    if with_prototypes:
        yield "#ifdef GATE_PROTOTYPES"
        yield from (f"{prototype};" for _, prototype, _, _ in forms)
        yield "#undef GATE_PROTOTYPES"
        yield "#else"
    for name, _, gated, parameters in forms:
        yield f"CALL({name}, {int(gated)}, {name}({', '.join(argument(p) for p in parameters)}))"
    if with_prototypes:
        yield "#endif"
