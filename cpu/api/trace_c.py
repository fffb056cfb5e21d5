"""trace_c.py: the tables that FLYT_TRACE reads (cpu/client/core/wire/trace.h), and the entry points' way through it."""

import re

import c_types

SCALARS = {
    "int": "SIGNED",
    "long": "SIGNED",
    "long long": "SIGNED",
    "short": "SIGNED",
    "unsigned int": "UNSIGNED",
    "unsigned char": "UNSIGNED",
    "unsigned short": "UNSIGNED",
    "unsigned long long": "UNSIGNED",
    "size_t": "UNSIGNED",
    "uint64_t": "HEX",
    "float": "FLOAT",
    "double": "FLOAT",
    "char": "CHARACTERS",
}


def plain(text):
    """The type without const, but for strings."""
    text = text.strip()
    return (
        text
        if text == "const char *"
        else re.sub(r"\s+", " ", re.sub(r"\bconst\b", " ", text)).strip().replace("* *", "**")
    )


def identifier(text):
    return re.sub(r"\W+", "_", text.replace("*", "pointer")).strip("_")


class Tables:
    """The C of the tables that the functions of one version need, in the order in which they are declared."""

    def __init__(self, types, errors, release, stream):
        self.types, self.errors, self.release, self.stream = types, errors, release, stream
        self.lines, self.made = [], {}

    def add(self, name, kind, size, **more):
        fields = "".join(f", .{key} = {value}" for key, value in more.items())
        self.lines.append(
            f"static const struct trace_type type_{name} = {{ .kind = TRACE_{kind}, .size = {size}{fields} }};"
        )
        return f"&type_{name}"

    def type(self, text, special=""):
        """The C expression of a type's description. special: HEX, KERNEL, SYMBOL."""
        key = (text, special)
        if key not in self.made:
            self.made[key] = self.make(plain(text), special)
        return self.made[key]

    def make(self, text, special):
        name = identifier(f"{text} {special}")
        if special:
            return self.add(name, special, f"sizeof({text})")
        if text == "const char *":
            return self.add(name, "STRING", "sizeof(char *)")
        if text.endswith("*"):
            return self.type_once("pointer", "POINTER", "sizeof(void *)")
        if text == self.stream:
            return self.add(name, "STREAM", f"sizeof({text})")
        if text == "void":
            return self.add(name, "VOID", 0)
        if text == "cudaError_t":
            return self.enumeration(
                name, text, [(error.runtime, error.code) for error in self.errors if error.runtime]
            )
        if text == "CUresult":
            return self.enumeration(name, text, [(error.driver, error.code) for error in self.errors if error.driver])
        if text in SCALARS:
            return self.add(name, SCALARS[text], f"sizeof({text})")
        if text in self.types.enums:
            return self.enumeration(
                name,
                text,
                [
                    (value, number)
                    for value, number, range_ in self.types.enums[text].values
                    if range_.has(self.release)
                ],
            )
        if text in self.types.structs:
            return self.structure(name, self.types.structs[text])
        if text in self.types.callbacks:
            return self.type_once("pointer", "POINTER", "sizeof(void *)")
        alias = self.types.aliases[text]
        if alias.handle:
            return self.type_once("pointer", "POINTER", "sizeof(void *)")
        return self.type(alias.type)

    def type_once(self, name, kind, size):
        if name not in self.made:
            self.made[name] = self.add(name, kind, size)
        return self.made[name]

    def enumeration(self, name, text, values):
        unique = {}
        for value, number in values:
            unique.setdefault(number, value)
        self.lines.append(
            f"static const struct trace_value values_{name}[] = {{ "
            + ", ".join(f'{{ "{value}", {number} }}' for number, value in unique.items())
            + " };"
        )
        return self.add(name, "ENUM", f"sizeof({text})", values=f"values_{name}", count=len(unique))

    def members(self, struct, whole, prefix=""):
        """(name, type, elements) of what is shown: nested structures by member, of unions only that they are there."""
        for member in struct.of(self.release):
            path = prefix + member.name
            if re.match(r"reserved|pad", member.name):
                continue
            if not member.nested:
                elements = 1
                for number in re.findall(r"\[(\d+)\]", member.array):
                    elements *= int(number)
                yield path, self.type(member.type, "HEX" if is_flags(member.type, member.name) else ""), elements
            elif member.nested.union or member.array or not member.name:
                if member.name:
                    yield path, self.type_once("union", "UNION", 0), 1
            else:
                yield from self.members(member.nested, whole, path + ".")

    def structure(self, name, struct):
        if struct.union:
            return self.type_once("union", "UNION", 0)
        shown = list(self.members(struct, struct.name))
        tuple_ = [path for path, _, _ in shown] == ["x", "y", "z"]
        rows = ", ".join(
            f'{{ "{path}", {type_}, offsetof({struct.name}, {path}), {elements} }}' for path, type_, elements in shown
        )
        self.lines.append(f"static const struct trace_member members_{name}[] = {{ {rows} }};")
        return self.add(
            name,
            "TUPLE" if tuple_ else "STRUCT",
            f"sizeof({struct.name})",
            members=f"members_{name}",
            count=len(shown),
        )

    def parameter(self, function, parameter):
        """The row of one parameter."""
        use, text, special, count = "PLAIN", parameter.type, "", -1
        names = [p.name for p in function.parameters]
        if parameter.use in ("kernel", "symbol"):
            special = parameter.use.upper()
        elif parameter.use in ("in", "out", "inout") and text.endswith("*"):
            target = plain(text[:-1])
            if target != "void":
                use, text = ("IN" if parameter.use == "in" else "OUT"), target
                count = names.index(parameter.count) if parameter.count else -1
        elif text.startswith("const ") and text.count("*") == 1 and c_types.base(text) in self.types.structs:
            use, text = "IN", c_types.base(text)
        if use == "PLAIN" and not special and is_flags(text, parameter.name):
            special = "HEX"
        return f'{{ "{parameter.name}", {self.type(text, special)}, TRACE_{use}, {count} }}'

    def function(self, function, ending):
        rows = [self.parameter(function, p) for p in function.parameters]
        name = function.name + ending
        if rows:
            self.lines.append(f"static const struct trace_parameter parameters_{name}[] = {{ {', '.join(rows)} }};")
        parameters = f"parameters_{name}" if rows else "NULL"
        is_error = "true" if function.returns in ("cudaError_t", "CUresult") else "false"
        self.lines.append(
            f'static const struct trace_function function_{name} = {{ "{name}", {self.type(function.returns)}, '
            f"{parameters}, {len(rows)}, {is_error} }};"
        )


def is_flags(type_, name):
    return type_ in ("unsigned int", "unsigned long long") and name.lower().endswith("flags")


def traced(function, ending, front, call):
    """The entry point's slow way. call: the C of the body's call."""
    yield f"static __attribute__((noinline, cold)) {function.prototype('trace_', ending)}"
    yield "{"
    arguments = "NULL"
    if function.parameters:
        yield f"    const void *const arguments[] = {{ {', '.join('&' + p.name for p in function.parameters)} }};"
        arguments = "arguments"
    yield "    struct trace_call call;"
    yield f"    trace_enter(&call, &{front}, &function_{function.name}{ending}, {arguments});"
    if function.returns == "void":
        yield f"    {call};"
        yield "    trace_leave(&call, NULL);"
    else:
        yield f"    {function.returns}{'' if function.returns.endswith('*') else ' '}result = {call};"
        yield "    trace_leave(&call, &result);"
        yield "    return result;"
    yield "}"
    yield ""
