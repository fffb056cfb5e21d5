"""gate_c.py: the gate in the entries (cpu/client/core/api_gate.h), and a call of each for tests/core/gate_entries.c."""

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


def entry(head, function, ending, flag, call, failed):
    """The C of an exported function that passes the gate. head: of the prototype; flag: whether calls are traced,
    or ""; call: of the body; failed: the function that takes an error that is returned, or "".

    The short way calls nothing before the body, so the parameters stay where they are. Everything else is the long way.
    """
    name, returns = f"{function.name}{ending}", function.returns
    arguments = ", ".join(p.name for p in function.parameters)
    result = "" if returns == "void" else f"{returns}{'' if returns.endswith('*') else ' '}result = "
    yield f"static __attribute__((noinline, cold)) {function.prototype('slow_', ending)}"
    yield "{"
    yield f'    CORE_GATE("{name}");'
    if flag and result:
        yield f"    {result}{flag} ? trace_{name}({arguments}) : {call};"
    elif flag:
        yield f"    if ({flag})"
        yield f"        trace_{name}({arguments});"
        yield "    else"
        yield f"        {call};"
    else:
        yield f"    {result}{call};"
    if result:
        yield f'    return result != 0 ? {failed}(result, "{name}") : result;' if failed else "    return result;"
    yield "}"
    yield f"{head}{function.prototype('', ending)}"
    yield "{"
    yield f"    if (__builtin_expect({f'{flag} || ' if flag else ''}!core_gate_in(\"{name}\"), false))"
    if result:
        yield f"        return slow_{name}({arguments});"
    else:
        yield "    {"
        yield f"        slow_{name}({arguments});"
        yield "        return;"
        yield "    }"
    yield f"    {result}{call};"
    if failed and result:
        yield "    if (__builtin_expect(result != 0, false))"
        yield f'        result = {failed}(result, "{name}");'
    yield "    core_gate_out();"
    if result:
        yield "    return result;"
    yield "}"
    yield ""
