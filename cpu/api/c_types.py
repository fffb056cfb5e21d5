"""c_types.py: the described types as C, as one release of CUDA, (major, minor), lays them out."""

import re


def base(type_):
    """The type without const and stars."""
    return re.sub(r"\bconst\b|\*", " ", type_).strip()


def declaration(type_, name, array=""):
    return f"{type_}{'' if type_.endswith('*') else ' '}{name}{array}"


def fields(struct, release, depth=1):
    """The lines of a struct's body."""
    lines, indent = [], "    " * depth
    for member in struct.of(release):
        if member.nested:
            lines.append(f"{indent}{'union' if member.nested.union else 'struct'} {{")
            lines += fields(member.nested, release, depth + 1)
            lines.append(f"{indent}}}{' ' if member.name else ''}{member.name}{member.array};")
        else:
            lines.append(f"{indent}{declaration(member.type, member.name, member.array)};")
    return lines


def held(struct, release):
    """The names of the types that a struct contains, not only points to."""
    for member in struct.of(release):
        if member.nested:
            yield from held(member.nested, release)
        elif not member.type.endswith("*"):
            yield base(member.type)


def ordered(types, release):
    """The structs of this version, each after those that it contains."""
    done, order = set(), []

    def visit(name):
        struct = types.structs.get(name)
        if name in done or not struct or not struct.versions.has(release):
            return
        done.add(name)
        for inner in held(struct, release):
            visit(inner)
        order.append(struct)

    for name in types.structs:
        visit(name)
    return order


def runtime_types(types, errors, release):
    """C text with every type of the runtime API. An enum has the values of all releases."""
    names = {error.runtime: error.code for error in errors if error.runtime}
    return all_types(types, "typedef enum cudaError", names, "cudaError_t", release)


def driver_types(types, errors, release):
    """C text with every described type of the driver API."""
    names = {"CUDA_SUCCESS": 0, **{error.driver: error.code for error in errors if error.driver}}
    return all_types(types, "typedef enum cudaError_enum", names, "CUresult", release)


def all_types(types, head, codes, result, release):
    """C text with the type of the result codes and the described types."""
    lines = [f"{head} {{", *(f"    {name} = {code}," for name, code in codes.items()), f"}} {result};", ""]
    for enum in types.enums.values():
        if enum.versions.has(release):
            lines.append(f"typedef enum {enum.name} {{")
            lines += [f"    {name} = {number}," for name, number, _ in enum.values]
            lines += [f"}} {enum.name};", ""]
    for alias in types.aliases.values():
        if alias.versions.has(release):
            lines.append(f"typedef {declaration(alias.type, alias.name)};")
    lines.append("")
    structs = ordered(types, release)
    lines += [f"typedef {'union' if s.union else 'struct'} {s.name} {s.name};" for s in structs]
    lines += [f"typedef {c.prototype()};" for c in types.callbacks.values() if c.versions.has(release)]
    lines.append("")
    for struct in structs:
        lines += [f"{'union' if struct.union else 'struct'} {struct.name} {{", *fields(struct, release), "};", ""]
    return "\n".join(lines)


def places(struct, release, prefix=""):
    """Every named member, also of nested structs, as offsetof() wants it: `params.fence.value`."""
    for member in struct.of(release):
        path = prefix + member.name
        if member.nested:
            if member.name:
                yield path, member
            if not member.array:
                yield from places(member.nested, release, path + "." if member.name else prefix)
        else:
            yield path, member
