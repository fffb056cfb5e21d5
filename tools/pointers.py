"""tools/pointers.py: pointers to functions that only ever have one function as their value; for tools/circles.

Such a pointer could be a call: a search would find it, and a debugger would step into it. The sources are read with
regular expressions, not by a compiler, so this looks at what is usual in them: a member of a structure, or a variable
of a file, which initialisers and assignments give its values. A value that is no function's name, an address that is
taken, a table made by a macro: then nobody knows, and nothing is said.
"""
import collections
import functools
import re

SKIP = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
TYPEDEF = re.compile(r"typedef\s+[\w\s*]+?(?:\b(\w+)|\(\s*\*\s*(\w+)\s*\))\s*\([^;{}]*\)\s*;")
POINTER = re.compile(r"\(\s*\*\s*(?:const\s+|_Atomic\s+)?(\w+)\s*(?:\[[^\]]*\])?\s*\)\s*\(")
FIRST_WORD = re.compile(r"(?:(?:extern|static|const|_Atomic|_Thread_local)\s+)*(?:_Atomic\s*\(\s*)?(\w+)\s*(\*?)")
STATIC = re.compile(r"^static\b[^;={}]*?\b(\w+)\s*\(", re.MULTILINE)
STRUCT = re.compile(r"\bstruct\s+(\w+)\s*\{")
# `struct tag name[] = {` and `(struct tag){`
GIVEN = re.compile(r"\bstruct\s+(\w+)\s*(?:\)|(?:(?:\*?\s*const\s+)?\w+)\s*((?:\[[^\]]*\]\s*)*)=)\s*\{")
VALUE_OF_DEFINED = re.compile(r"\s*(?:const\s+)?\w+\s*((?:\[[^\]]*\]\s*)*)=\s*\{")
DESIGNATED = re.compile(r"\.(\w+)(?:\.\w+|\[[^\]]*\])*\s*=\s*")
CAST = re.compile(r"\(\s*(?:const\s+)?(?:struct\s+)?\w+\s*\**\s*\)|\([^()]*\(\s*\*\s*\)\s*\([^()]*\)\s*\)")
ASSIGNED = re.compile(r"(?:\[[^\]]*\])?\s*=(?!=)([^;]*);")
ATOMIC = re.compile(r"atomic_\w+\(\s*$")
TAKEN = re.compile(r"&[\w>.\-\[\]]*$")
STORED = re.compile(r"atomic_(?:store|init|exchange)\w*\(\s*&[\w>.\-\[\]]*$")
STORED_VALUE = re.compile(r"\s*,\s*([^;]*?)(?:,\s*memory_order_\w+)?\)\s*[;,)]")
VARIABLE_ASSIGNED = r"\s*(=(?!=)|,)\s*([^;]*?)(?:,\s*memory_order_\w+)?\)?\s*;"
VARIABLE_STORED = re.compile(r"atomic_(?:store|init|exchange)\w*\(\s*&$")
NO_MEMBER = re.compile(r"[^\w.>]$")
NOBODY_KNOWS = "?"

Member = collections.namedtuple("Member", "name pointer tag")


def plain(text):
    """Without comments, directives, and what strings say."""
    def short(found):
        return " " if found[0][0] == "/" else found[0][0] * 2 if found[0][0] == '"' else "0"
    return DIRECTIVE.sub("", SKIP.sub(short, text))


def closing(text, start):
    """Where the bracket at `start` is closed."""
    depth = 0
    for bracket in re.compile(r"[][(){}]").finditer(text, start):
        depth += 1 if bracket[0] in "([{" else -1
        if not depth:
            return bracket.start()
    return len(text)


def divided(text, by):
    """The parts between commas, or semicolons, that stand in no brackets."""
    parts, depth, start = [], 0, 0
    for sign in re.compile(r"[][(){}" + by + "]").finditer(text):
        if sign[0] != by:
            depth += 1 if sign[0] in "([{" else -1
        elif not depth:
            parts.append(text[start:sign.start()].strip())
            start = sign.end()
    return parts + [text[start:].strip()]


class Pointers:
    def __init__(self, texts, functions):
        """texts: path → source. functions: names of all that are not static."""
        self.texts = {path: plain(text) for path, text in texts.items()}
        self.functions = functions
        self.static = {path: set(STATIC.findall(text)) for path, text in self.texts.items()}
        self.types, self.pointer_types = set(), set()
        for text in self.texts.values():
            for function, pointer in TYPEDEF.findall(text):
                (self.types if function else self.pointer_types).add(function or pointer)
        self.structs = {}  # (tag, its file; of a header: None) → members
        self.declared = {}  # the same → path
        for path, text in self.texts.items():
            for found in STRUCT.finditer(text):
                key = found[1], path if path.endswith(".c") else None
                self.declared.setdefault(key, path)
                self.structs.setdefault(key, self.members(text[found.end():closing(text, found.end() - 1)]))
        self.values = collections.defaultdict(set)  # (structure, member) or (path, variable) → functions
        self.having = collections.defaultdict(list)  # name of a member → structures
        for key, members in self.structs.items():
            for member in members:
                if member.pointer:
                    self.having[member.name].append(key)
        for path, text in self.texts.items():
            self.read_initialisers(path, text)
            self.read_assignments(path, text)
            self.read_variables(path, text)

    # ---- declarations ----

    def pointers_of(self, declaration):
        """Names of the pointers to functions that it declares."""
        if "{" in declaration or declaration.startswith("typedef"):
            return []
        found = list(filter(None, map(POINTER.search, divided(declaration, ","))))
        if found:
            return [one[1] for one in found]
        found = FIRST_WORD.match(declaration)
        if found and found[1] in self.types and found[2]:
            return re.findall(r"\*\s*(?:const\s+|_Atomic\s+|\)\s*)?(\w+)", declaration)
        if found and found[1] in self.pointer_types:
            return re.findall(rf"(?:\b{found[1]}|,)\s*(\w+)", declaration)
        return []

    def members(self, body):
        members = []
        for declaration in filter(None, divided(body, ";")):
            names = self.pointers_of(declaration)
            if names:
                members += [Member(name, True, None) for name in names]
            elif "{" in declaration:
                start = declaration.index("{")
                tag = re.match(r"(?:const\s+)?(?:struct|union)\s*(\w+)\s*\{", declaration)
                names = re.findall(r"(\w+)\s*(?:\[[^\]]*\])*\s*(?:,|$)", declaration[closing(declaration, start) + 1:])
                members += [Member(name, False, tag and tag[1]) for name in names] or [Member(None, False, None)]
            else:
                tag = re.match(r"(?:const\s+)?struct\s+(\w+)\b(?!\s*\*)", declaration)
                for part in divided(declaration, ","):
                    name = re.search(r"(\w+)\s*(?:\[[^\]]*\]\s*)*(?::\s*\d+)?\s*\)?\s*$", part)
                    members.append(Member(name and name[1], False, tag and tag[1]))
        return members

    def struct(self, tag, path):
        return next((key for key in ((tag, path), (tag, None)) if key in self.structs), None)

    # ---- values ----

    def meant(self, value, path, at=0):
        """The functions that an expression may mean. at: where it stands, if it is not an initialiser."""
        value = CAST.sub("", value.strip().lstrip("&")).strip().lstrip("&")
        if value in ("NULL", "0", ""):
            return set()
        choice = re.match(r"[^?]*\?([^:]*):(.*)$", value, re.DOTALL)
        if choice:
            return self.meant(choice[1], path, at) | self.meant(choice[2], path, at)
        if value in self.static[path] and not self.parameter(value, path, at):
            return {f"{path}: {value}"}
        return {value if value in self.functions else NOBODY_KNOWS}

    def parameter(self, name, path, at):
        """Is it a parameter of the function that this place is in?"""
        text = self.texts[path]
        body = text.rfind("\n{", 0, at)
        head = max(text.rfind(";", 0, body), text.rfind("}", 0, body)) + 1
        return at > 0 and body > text.rfind("\n}", 0, at) and bool(re.search(rf"\b{name}\s*[,)]", text[head:body]))

    def initialise(self, key, text, path, array):
        members, place = self.structs[key], 0
        for part in filter(None, divided(text, ",")):
            if array:
                part = re.sub(r"^\[[^\]]*\]\s*=\s*", "", part)
                if part.startswith("{"):
                    self.initialise(key, part[1:closing(part, 0)], path, False)
                else:
                    self.unknown(key)
                continue
            named = DESIGNATED.match(part)
            if named:
                part = part[named.end():]
                place = next((i for i, member in enumerate(members) if member.name == named[1]), len(members))
            if place < len(members):
                self.initialise_member(key, members[place], part, path)
                place += 1

    def initialise_member(self, key, member, part, path):
        inner = member.tag and self.struct(member.tag, path)
        if member.pointer:
            self.values[key, member.name] |= self.meant(part, path)
        elif inner and part.startswith("{"):
            text = part[1:closing(part, 0)]
            self.initialise(inner, text, path, text.lstrip().startswith(("{", "[")))

    def unknown(self, key):
        for member in self.structs[key]:
            if member.pointer:
                self.values[key, member.name].add(NOBODY_KNOWS)

    def read_initialisers(self, path, text):
        for found in GIVEN.finditer(text):
            key = self.struct(found[1], path)
            if key:
                self.initialise(key, text[found.end():closing(text, found.end() - 1)], path, bool(found[2]))
        for found in STRUCT.finditer(text):
            end = closing(text, found.end() - 1) + 1
            value = VALUE_OF_DEFINED.match(text, end)
            if value:
                inside = text[value.end():closing(text, value.end() - 1)]
                self.initialise(self.struct(found[1], path), inside, path, bool(value[1]))

    def read_assignments(self, path, text):
        """Of members. A name that several structures have counts for each of them."""
        for found in self.having_names().finditer(text):
            name, before = found[1], text[max(0, found.start() - 80):found.start()]
            if re.search(r"[{,]\s*$", before):
                continue  # designates a member in an initialiser
            taken = TAKEN.search(before)
            value = ASSIGNED.match(text, found.end()) or STORED.search(before) and STORED_VALUE.match(text, found.end())
            if value:
                functions = self.meant(value[1], path, found.start())
            elif taken and not ATOMIC.search(before[:taken.start()]) and text[found.end()] not in "[.(-":
                functions = {NOBODY_KNOWS}
            else:
                continue
            for key in self.having[name]:
                if key[1] in (None, path):
                    self.values[key, name] |= functions

    @functools.cache
    def having_names(self):
        return re.compile(r"(?:->|\.)(" + "|".join(sorted(self.having) or ["(?!)"]) + r")\b")

    def read_variables(self, path, text):
        """Of files."""
        outside, at = [], 0
        for found in re.finditer(r"\{", text):
            if found.start() >= at:
                outside.append(text[at:found.start()])
                at = closing(text, found.start()) + 1
                outside.append(";" if outside[-1].rstrip().endswith(")") else "{}")
        for declaration in divided("".join(outside) + text[at:], ";"):
            head, _, value = declaration.partition("=")
            if head.startswith(("typedef", "extern")):
                continue
            for name in self.pointers_of(head.strip()):
                values = self.values[path, name]
                values |= self.meant(value, path)
                users = [path] if head.startswith("static") else self.texts
                for user in [user for user in users if name in self.texts[user]]:
                    values |= self.given(name, user)

    def given(self, name, path):
        """What a file assigns to a variable."""
        values, text = set(), self.texts[path]
        for found in re.finditer(name + VARIABLE_ASSIGNED, text):
            before = text[max(0, found.start() - 60):found.start()]
            wanted = VARIABLE_STORED if found[1] == "," else NO_MEMBER
            if wanted.search(before):
                values |= self.meant(found[2], path, found.start())
        return values

    # ---- the answer ----

    def single(self):
        """(path, structure or variable) → its pointers that have one function, each with that."""
        found = collections.defaultdict(list)
        for (key, name), functions in sorted(self.values.items(), key=str):
            if len(functions) == 1 and NOBODY_KNOWS not in functions:
                function = next(iter(functions))
                if isinstance(key, tuple):
                    found[self.declared[key], key[0]].append(f"{name} is {function}")
                else:
                    found[key, name].append(f"is {function}")
        return found
