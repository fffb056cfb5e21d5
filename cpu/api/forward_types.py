"""forward_types.py: the types of forwarded calls (forward_c.py): how plain ones travel, and structures in the
protocol, with their conversion both ways between it and C.
"""

import re

import api
import driver_c

# How plain types travel.
WIRE = {
    "int": "int",
    "unsigned int": "unsigned int",
    "unsigned char": "unsigned int",
    "unsigned short": "unsigned int",
    "size_t": "unsigned hyper",
    "unsigned long long": "unsigned hyper",
    "uint64_t": "unsigned hyper",
    "float": "float",
}


def snake(text):
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=\d[DP])(?=[A-Z])", "_", text).lower()


class Library:
    """The described types, and what is asked about them."""

    def __init__(self):
        self.types = api.driver_types()

    def plain(self, text):
        """The plain type that a name stands for, or None."""
        alias = self.types.aliases.get(text)
        if alias and not alias.handle:
            return self.plain(alias.type)
        return text if text in WIRE else None

    def known(self, text):
        """Is this a type of C's, or one of CUDA's that driver_types.api describes?"""
        types = self.types
        described = (types.structs, types.enums, types.aliases, types.callbacks)
        return not text.startswith("CU") or any(text in some for some in described)

    def handle(self, text):
        alias = self.types.aliases.get(text)
        return alias if alias and "wire" in alias.options else None

    def highest(self, text):
        """(lowest, highest) value of an enum."""
        numbers = [number for _, number, _ in self.types.enums[text].values]
        return min(numbers), max(numbers)


# ---- structures: on the wire, and both ways between it and C ----


class Structs:
    """The structures that calls use, each after those that it contains."""

    def __init__(self, library):
        self.library, self.wire, self.code, self.done = library, [], [], set()

    def need(self, name):
        """The wire's name of the structure."""
        wire = f"flyt_{snake(name)}"
        if name not in self.done:
            self.done.add(name)
            self.make(name, wire)
        return wire

    def make(self, name, wire):
        struct = self.library.types.structs[name]
        members, there, back = self.members(struct, wire, "", "")
        self.wire += [f"struct {wire} {{", *(f"    {m};" for m in members), "};"]
        self.code += [
            f"static inline int to_wire_{name}(struct session *session, const {name} *from, {wire} *to)",
            "{",
            "    (void)session;",
            *(f"    {line}" for line in there),
            "    return 0;",
            "}",
            "",
            f"static inline int from_wire_{name}(struct session *session, const {wire} *from, {name} *to)",
            "{",
            "    (void)session;",
            "    memset(to, 0, sizeof *to);",
            *(f"    {line}" for line in back),
            "    return 0;",
            "}",
            "",
        ]

    def members(self, struct, wire, prefix, at):
        """The wire's members, and the lines that fill and read them. at: where they are in the wire's structure."""
        members, there, back = [], [], []
        choices = [m.options["by"] for m in struct.of(driver_c.RELEASE) if "by" in m.options]
        for member in struct.of(driver_c.RELEASE):
            path = prefix + member.name
            if member.name in choices or re.match(r"reserved|pad", member.name):
                continue  # the union carries it; nobody reads it
            if not member.nested:
                member_wire, lines_there, lines_back = self.plain(member, path, at + member.name)
                members.append(member_wire)
            elif member.nested.union:
                if "by" not in member.options:
                    raise api.Wrong(f"{struct.name or wire}.{member.name}: no word by= says which part of it counts")
                lines_there, lines_back = self.union(member, struct, f"{wire}_{member.name}", prefix, at)
                members.append(f"{wire}_{member.name} {member.name}")
            else:
                inner = f"{wire}_{member.name}"
                parts, lines_there, lines_back = self.members(member.nested, inner, path + ".", at + member.name + ".")
                self.wire += [f"struct {inner} {{", *(f"    {part};" for part in parts), "};"]
                members.append(f"{inner} {member.name}")
            there += lines_there
            back += lines_back
        return members, there, back

    def plain(self, member, path, at):
        alias = self.library.handle(member.type)
        if alias and "object" in alias.options and not member.array:
            return self.object(member, alias.options["wire"], path, at)
        enum = member.type in self.library.types.enums
        wire = "int" if enum else WIRE.get(self.library.plain(member.type) or "")
        if not wire:
            raise api.Wrong(f"a member of the type {member.type} cannot be forwarded")
        index = "[i]" if member.array else ""
        count = re.findall(r"\d+", member.array)
        cast = f"({member.type})" if enum or wire != self.library.plain(member.type) else ""
        there, back = [f"to->{at}{index} = from->{path}{index};"], [f"to->{path}{index} = {cast}from->{at}{index};"]
        if enum:
            there[0] = f"to->{at}{index} = (int)from->{path}{index};"
            low, high = self.library.highest(member.type)
            back.insert(0, f"if (from->{at}{index} < {low} || from->{at}{index} > {high})")
            back.insert(1, "    return 1;")
        if member.array:
            there = [f"for (int i = 0; i < {count[0]}; i++)", *("    " + line for line in there)]
            back = [f"for (int i = 0; i < {count[0]}; i++) {{", *("    " + line for line in back), "}"]
        return f"{wire} {member.name}{member.array}", there, back

    @staticmethod
    def object(member, kind, path, at):
        """The handle of an object: the server finds what the number on the wire stands for."""
        return (
            f"unsigned hyper {member.name}",
            [
                f"int {member.name} = {kind}_to_wire(session, from->{path}, &to->{at});",
                f"if ({member.name})",
                f"    return {member.name};",
            ],
            [
                f"int {member.name} = {kind}_from_wire(session, from->{at}, &to->{path});",
                f"if ({member.name})",
                f"    return {member.name};",
            ],
        )

    def union(self, member, struct, wire, prefix, at):
        by = next(m for m in struct.of(driver_c.RELEASE) if m.name == member.options["by"])
        numbers = {name: number for name, number, _ in self.library.types.enums[by.type].values}
        cases, there, back = [], [], []
        for part in member.nested.of(driver_c.RELEASE):
            if "case" not in part.options:
                continue
            number, inner = numbers[part.options["case"]], f"{wire}_{part.name}"
            place = f"{at}{member.name}.{wire}_u.{part.name}."
            members, lines_there, lines_back = self.members(
                part.nested, inner, f"{prefix}{member.name}.{part.name}.", place
            )
            self.wire += [f"struct {inner} {{", *(f"    {m};" for m in members), "};"]
            cases.append(f"case {number}: {inner} {part.name};")
            there += [f"case {number}: {{", *("    " + line for line in lines_there), "    break;", "}"]
            back += [f"case {number}: {{", *("    " + line for line in lines_back), "    break;", "}"]
        self.wire += [f"union {wire} switch (int {by.name}) {{", *cases, "default: void;", "};"]
        choice = f"{at}{member.name}.{by.name}"
        low, high = self.library.highest(by.type)
        other = ["default:", "    return 801; /* this part of the union is not implemented */", "}"]
        return (
            [f"to->{choice} = (int)from->{prefix}{by.name};", f"switch (to->{choice}) {{", *there, *other],
            [
                f"if (from->{choice} < {low} || from->{choice} > {high})",
                "    return 1;",
                f"to->{prefix}{by.name} = ({by.type})from->{choice};",
                f"switch (from->{choice}) {{",
                *back,
                *other,
            ],
        )
