"""api.py: reads the description of CUDA (cpu/api/*.api) for the generators and checks. README.md explains the form."""

import os
import re
from dataclasses import dataclass, field

HERE = os.path.dirname(os.path.abspath(__file__))
MAJORS = (11, 12, 13)
NEWEST = {11: 8, 12: 9, 13: 0}  # the release of each major version that is described
CLASSES = ("local", "hand", "forward", "unsupported")


class Wrong(Exception):
    """The description says something that makes no sense; the text names file and line."""


# ---- versions ----


@dataclass(frozen=True)
class Versions:
    """From one release, (major, minor), to another, both included; None is open."""

    first: tuple = None
    last: tuple = None

    def has(self, release):
        return (self.first is None or release >= self.first) and (self.last is None or release <= self.last)

    def has_major(self, major):
        """Whether the newest release of that major version has it."""
        return self.has((major, NEWEST[major]))

    def majors(self):
        return tuple(major for major in MAJORS if self.has_major(major))

    def __str__(self):
        if self.first is None and self.last is None:
            return ""
        first = release_text(self.first) if self.first else str(MAJORS[0])
        last = str(self.last[0]) if self.last else ""
        return first if first == last else f"{first}-{last}"


def release_text(release):
    return f"{release[0]}.{release[1]}" if release[1] else str(release[0])


VERSIONS = re.compile(r"^(\d+(?:\.\d+)?)(-(\d+)?)?$")


def versions(word):
    """'12' (all of 12), '12.4-', '11-12', '12.3-12' and '' (all there are)."""
    if not word:
        return Versions()
    match = VERSIONS.match(word)
    if not match:
        raise Wrong(f"'{word}' is no range of versions")
    first = tuple(int(n) for n in (match.group(1) + ".0").split(".")[:2])
    if match.group(2) is None:
        last = (first[0], 99)
    else:
        last = (int(match.group(3)), 99) if match.group(3) else None
    return Versions(first, last)


# ---- functions ----

# options without a value
FLAGS = ("null", "soft", "async", "blocks", "charge", "served", "partial", "untraced", "ungated")


@dataclass
class Parameter:
    type: str
    name: str
    use: str = ""  # kernel, symbol, in, out, inout or nothing
    count: str = ""  # of out[count]: the parameter that says how many
    maybe: bool = False  # the pointer may be NULL

    def declaration(self):
        return f"{self.type}{'' if self.type.endswith('*') else ' '}{self.name}"


@dataclass
class Function:
    name: str  # as exported, without _ptsz and _ptds
    returns: str
    parameters: list
    kind: str  # one of CLASSES
    chapter: str
    reason: str  # why it is not supported
    versions: Versions
    per_thread: str = ""  # "ptsz" or "ptds" when it has such a variant
    options: dict = field(default_factory=dict)
    place: str = ""

    def prototype(self, prefix="", suffix=""):
        arguments = ", ".join(p.declaration() for p in self.parameters) or "void"
        return f"{self.returns}{'' if self.returns.endswith('*') else ' '}{prefix}{self.name}{suffix}({arguments})"

    def names(self):
        """The exported names that the row stands for."""
        return [self.name] + ([f"{self.name}_{self.per_thread}"] if self.per_thread else [])


def logical_lines(path):
    """(number, text) of each row: a line that begins with a blank continues the one before."""
    row, number = "", 0
    with open(path) as file:
        for at, line in enumerate(file, 1):
            line = line.split("#")[0].rstrip()
            if line[:1].isspace() and line.strip():
                row += " " + line.strip()
                continue
            if row:
                yield number, row
            row, number = line, at
    if row:
        yield number, row


FUNCTION = re.compile(r"^([\w ]+?[ *]+)((?:__)?cu\w+)\((.*?)\)\s*([^()]*)$")
PARAMETER = re.compile(r"^(maybe )?(?:(kernel|symbol|in|out|inout)(?:\[(\w+)\])? )?(.*?[ *])(\w+)$")


def parameter(text):
    match = PARAMETER.match(text)
    if not match:
        raise Wrong(f"the parameter '{text}' is not understood")
    maybe, use, count, type_, name = match.groups()
    return Parameter(type_.strip(), name, use or "", count or "", bool(maybe))


def function(row, chapter, reason, option_names):
    match = FUNCTION.match(row)
    if not match:
        raise Wrong(f"not understood: {row}")
    inside = match.group(3).strip()
    parameters = [] if inside == "void" else [parameter(piece.strip()) for piece in inside.split(",")]
    known = {p.name for p in parameters}
    for p in parameters:
        if p.count and p.count not in known:
            raise Wrong(f"{match.group(2)} has no parameter {p.count}")
    made = Function(match.group(2), match.group(1).strip(), parameters, "", chapter, reason, Versions())
    for word in match.group(4).split():
        name, equal, value = word.partition("=")
        if word in CLASSES and not made.kind:
            made.kind = word
        elif word in ("ptsz", "ptds") and not made.per_thread:
            made.per_thread = word
        elif VERSIONS.match(word):
            made.versions = versions(word)
        elif name in option_names and name not in made.options:
            if name in FLAGS and equal:
                raise Wrong(f"{made.name}: '{word}' is not understood, or said twice")
            made.options[name] = value if equal else True
        else:
            raise Wrong(f"{made.name}: '{word}' is not understood, or said twice")
    if not made.kind:
        raise Wrong(f"{made.name} has no class: one of {', '.join(CLASSES)}")
    if made.kind == "forward" and "call" not in made.options:
        raise Wrong(f"{made.name} is of class forward without the word call=")
    if made.kind != "unsupported":
        made.reason = ""
    elif not reason:
        raise Wrong(f"{made.name} is unsupported, and no line 'reason …' above says why")
    return made


def functions(path, option_names=()):
    """The functions of one file, in its order."""
    found, chapter, reason, default, names = [], "", "", "", {}
    for number, row in logical_lines(path):
        try:
            if row.startswith("chapter "):
                chapter, reason = row[8:].strip(), default
            elif row.startswith("reason "):
                reason = row[7:].strip()
                default = default if chapter else reason
            else:
                made = function(row, chapter, reason, option_names)
                made.place = f"{os.path.basename(path)}:{number}"
                for major in made.versions.majors():
                    for name in made.names():
                        if (name, major) in names:
                            raise Wrong(f"{name} of CUDA {major} is at {names[name, major]} already")
                        names[name, major] = made.place
                found.append(made)
        except Wrong as wrong:
            raise Wrong(f"{path}:{number}: {wrong}") from None
    return found


# ---- types ----


@dataclass
class Member:
    type: str  # "" for a nested struct or union
    name: str  # "" for an anonymous one
    array: str  # "[3]"
    versions: Versions
    options: dict
    nested: object = None  # Struct


@dataclass
class Struct:
    name: str
    union: bool
    versions: Versions
    members: list

    def of(self, release):
        """The members that this release has."""
        return [member for member in self.members if member.versions.has(release)]


@dataclass
class Enum:
    name: str
    versions: Versions
    values: list  # (name, number, Versions)


@dataclass
class Alias:
    name: str  # a name for a plain type, or for a handle that programs cannot look into
    type: str
    handle: bool
    versions: Versions
    options: dict = field(default_factory=dict)


@dataclass
class Callback:
    name: str  # a pointer to such a function
    parameters: list
    versions: Versions

    def prototype(self):
        return f"void (*{self.name})({', '.join(p.declaration() for p in self.parameters)})"


@dataclass
class Types:
    structs: dict
    enums: dict
    aliases: dict
    callbacks: dict


HANDLE_OPTIONS = ("wire", "object", "missing", "shape")
MEMBER_OPTIONS = ("attribute", "by", "case")
MEMBER = re.compile(r"^(.*?[ *])(\w+)((?:\[\w+\])*)$")


def annotated(text, option_names=()):
    """(text, Versions, options) of a line. Two blanks stand before the range of versions and the options."""
    text, _, tail = text.strip().partition("  ")
    range_, options = Versions(), {}
    for word in tail.split():
        name, equal, value = word.partition("=")
        if VERSIONS.match(word):
            range_ = versions(word)
        elif equal and name in option_names:
            options[name] = value
        else:
            raise Wrong(f"'{word}' is not understood")
    return text.strip(), range_, options


def types(path):
    """The structs, unions, enums and aliases of one file."""
    made, open_, current = Types({}, {}, {}, {}), [], None
    with open(path) as file:
        for number, line in enumerate(file, 1):
            line = line.split("#")[0].rstrip()
            try:
                if not line:
                    continue
                if not line[0].isspace():
                    if open_:
                        raise Wrong("a nested struct is not closed")
                    current = top(line, made)
                elif isinstance(current, Enum):
                    text, range_, _ = annotated(line)
                    name, equal, value = text.partition("=")
                    if not equal:
                        raise Wrong(f"the value {text} has no number")
                    current.values.append((name.strip(), int(value, 0), range_))
                else:
                    nest(line, open_, current)
            except (Wrong, ValueError) as wrong:
                raise Wrong(f"{path}:{number}: {wrong}") from None
    return made


def top(line, made):
    keyword, _, rest = line.partition(" ")
    if keyword in ("handle", "alias"):
        text, range_, options = annotated(rest, HANDLE_OPTIONS)
        name, _, type_ = text.partition(" = ")
        made.aliases[name] = Alias(name, type_ or "void *", keyword == "handle", range_, options)
        return None
    if keyword == "callback":
        text, range_, _ = annotated(rest)
        match = re.match(r"^(\w+)\((.*)\)$", text)
        if not match:
            raise Wrong(f"not understood: {line}")
        made.callbacks[match.group(1)] = Callback(
            match.group(1), [parameter(p.strip()) for p in match.group(2).split(",")], range_
        )
        return None
    name, _, word = rest.partition(" ")
    if keyword == "enum":
        made.enums[name] = Enum(name, versions(word.strip()), [])
        return made.enums[name]
    if keyword in ("struct", "union"):
        made.structs[name] = Struct(name, keyword == "union", versions(word.strip()), [])
        return made.structs[name]
    raise Wrong(f"not understood: {line}")


def nest(line, open_, current):
    into = open_[-1] if open_ else current
    if into is None:
        raise Wrong("a member of nothing")
    text, range_, options = annotated(line, MEMBER_OPTIONS)
    if text in ("struct {", "union {"):
        open_.append(Struct("", text[0] == "u", Versions(), []))
    elif text.startswith("}"):
        closed = open_.pop()
        into = open_[-1] if open_ else current
        name, array = re.match(r"^(\w*)((?:\[\w+\])*)$", text[1:].strip()).groups()
        into.members.append(Member("", name, array, range_, options, closed))
    else:
        match = MEMBER.match(text)
        if not match:
            raise Wrong(f"the member '{text}' is not understood")
        into.members.append(Member(match.group(1).strip(), match.group(2), match.group(3), range_, options))


# ---- errors ----


@dataclass
class Error:
    code: int
    driver: str  # its name in the driver API, or ""
    runtime: str  # its name in the runtime API, or ""
    text: str
    versions: Versions


ERROR = re.compile(r'^(\d+) +(\w+|-) +(\w+|-) +"(.*)"(?: +(\S+))?$')


def errors(path):
    """The error codes in ascending order. A code may have several rows, for different versions."""
    found = []
    for number, row in logical_lines(path):
        match = ERROR.match(row)
        if not match:
            raise Wrong(f"{path}:{number}: not understood: {row}")
        code, driver, runtime, text, range_ = match.groups()
        found.append(
            Error(
                int(code),
                "" if driver == "-" else driver,
                "" if runtime == "-" else runtime,
                text,
                versions(range_ or ""),
            )
        )
        if len(found) > 1 and found[-2].code > found[-1].code:
            raise Wrong(f"{path}:{number}: {code} comes after {found[-2].code}")
    return found


# ---- attributes of launches ----

PLACES = ("launch", "node", "stream", "wire")


@dataclass
class LaunchAttribute:
    number: int
    name: str  # without CU_LAUNCH_ATTRIBUTE_
    places: list  # of PLACES
    size: int  # bytes of the value of one that streams have
    usual: str  # the first of them, for a new stream
    check: str  # who looks at the value; "" for nobody


ATTRIBUTE = re.compile(
    r"^(\d+) +([A-Z]\w*)((?: +[a-z]+)+?)(?: +size=(\d+)(?: +usual=(\d+(?:,\d+)*))?)?(?: +check=(\w+))?$"
)


def attributes(path, enum):
    """In ascending order; exactly those of the enum."""
    found, known = [], {name: number for name, number, _ in enum.values}
    for number, row in logical_lines(path):
        match = ATTRIBUTE.match(row)
        if not match:
            raise Wrong(f"{path}:{number}: not understood: {row}")
        id_, name, words, size, usual, check_ = match.groups()
        one = LaunchAttribute(int(id_), name, words.split(), int(size or 0), usual or "0", check_ or "")
        if unknown := set(one.places) - set(PLACES):
            raise Wrong(f"{path}:{number}: {', '.join(sorted(unknown))}: not one of {', '.join(PLACES)}")
        if ("stream" in one.places) != bool(one.size):
            raise Wrong(f"{path}:{number}: {name}: those that streams have, and no others, say size=")
        if known.pop("CU_LAUNCH_ATTRIBUTE_" + name, None) != one.number:
            raise Wrong(f"{path}:{number}: {name} is not {id_} in {enum.name}")
        if found and found[-1].number >= one.number:
            raise Wrong(f"{path}:{number}: {one.number} comes after {found[-1].number}")
        found.append(one)
    if known:
        raise Wrong(f"{path}:1: lacks {', '.join(known)}")
    return found


# ---- the files of this description ----

RUNTIME_OPTIONS = ("partial", "untraced", "ungated", "wire")
DRIVER_OPTIONS = ("entry", "per_thread_entry", "server", "null", "soft", "call", "async", "blocks", "charge", "served",
                  "role")


def path_of(name):
    return os.path.join(HERE, name)


def runtime():
    return functions(path_of("runtime.api"), RUNTIME_OPTIONS)


def driver():
    return functions(path_of("driver.api"), DRIVER_OPTIONS)


def runtime_types():
    return types(path_of("runtime_types.api"))


def driver_types():
    return types(path_of("driver_types.api"))


def launch_attributes():
    return attributes(path_of("launch_attributes.api"), driver_types().enums["CUlaunchAttributeID"])


def all_errors():
    return errors(path_of("errors.api"))
