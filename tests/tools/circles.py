#!/usr/bin/env python3
"""tests/tools/circles.py: tools/circles on small trees that this script makes and compiles. TAP on stdout.

shows: structure: a circle of files that use each other, an arrow between folders that is not allowed, and a pointer
  that only ever points to one function, are found
"""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import plan, result  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TABLE = """\
# A document

| other | table |
|---|---|
| `cpu/rpc` | anything |

| folder | what | may use |
|---|---|---|
| `cpu/common` | below all | – |
| `cpu/rpc/` | above it | `cpu/common/` |
| `cpu/api` (planned) | does not exist | `cpu/rpc` |
"""
# Three files in a circle, a fourth that the circle uses, and an arrow that is allowed.
PLAIN = {
    "docs/architecture.md": TABLE,
    "cpu/common/log.c": "void log_it(void) {}",
    "cpu/rpc/a.c": "void b(void); void a(void) { b(); }",
    "cpu/rpc/b.c": "void c(void); void d(void); void b(void) { c(); d(); }",
    "cpu/rpc/c.c": "void a(void); void log_it(void); void c(void) { a(); log_it(); }",
    "cpu/rpc/d.c": "void d(void) {}",
}


def check(name, files, status, *words, lacking=(), arguments=(), unbuilt=(), after=None):
    """Makes the tree, runs tools/circles on it, and compares its exit status and what it prints."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(root, path), "w") as file:
                file.write(text + "\n")
        for path in files:
            if path.endswith(".c") and path not in unbuilt:
                output = os.path.join(root, "build/plain", path[:-2] + ".o")
                os.makedirs(os.path.dirname(output), exist_ok=True)
                compiler = os.environ.get("CC", "cc")
                subprocess.run([compiler, "-c", "-I" + root, "-w", os.path.join(root, path), "-o", output], check=True)
        done = subprocess.run([os.path.join(ROOT, "tools/circles"), "--root", root, *arguments],
                              capture_output=True, text=True)
        said = done.stdout + done.stderr
        problems = [f"exit status {done.returncode}, not {status}"] if done.returncode != status else []
        problems += [f"does not say: {word}" for word in words if word not in said]
        problems += [f"says: {word}" for word in lacking if word in said]
        if after:
            problems += after(root)
    result(name, problems and "\n".join(problems + said.splitlines()))


def ring(size):
    return {f"cpu/rpc/r{i}.c": f"void r{(i + 1) % size}(void); void r{i}(void) {{ r{(i + 1) % size}(); }}"
            for i in range(size)}


def debt_is(*lines):
    def compare(root):
        with open(os.path.join(root, "tools/circles.debt")) as file:
            found = [line.strip() for line in file if line.strip() and not line.startswith("#")]
        return [] if found == list(lines) else [f"the debt is {found}, not {list(lines)}"]
    return compare


def pointers(debt):
    """Pointers with one value: which are seen, and which are not."""
    table = "struct t { int size; int (*read)(void), (*write)(int); }; extern const struct t *one;"
    first = ('#include "cpu/rpc/t.h"\nstatic int r(void) { return 1; }\n'
             "static int w(int a) { return a; }\n"
             "static const struct t mine = { 1, r, w }; const struct t *one = &mine;")
    one = {"cpu/rpc/t.h": table, "cpu/rpc/first.c": first}
    two = one | {"cpu/rpc/second.c": first.replace("static int r", "static\nint r").replace("*one", "*other")}
    say = "cpu/rpc/t.h: t points to one function only, so it should be a call: read is cpu/rpc/first.c: r, write is"
    check("a table with one implementation fails", PLAIN | one, 1, say)
    check("a table with two implementations passes", PLAIN | two, 0, lacking=("points to one function",))
    check("a table that the debt names passes", PLAIN | one | {debt: "pointer cpu/rpc/t.h t # for now"}, 0)
    check("a table in the debt needs a reason", PLAIN | one | {debt: "pointer cpu/rpc/t.h t"}, 2, "needs its reason")
    check("a table that is gone is paid", PLAIN | {debt: "pointer cpu/rpc/t.h t # for now"}, 0,
          "t does not point to one function only any longer", arguments=("--lower",), after=debt_is())
    named = first.replace("{ 1, r, w }", "{ .write = w, .read = r }")
    check("members that are named are seen", PLAIN | one | {"cpu/rpc/first.c": named}, 1, say)
    rows = first.replace("mine = { 1, r, w }", "rows[] = { { 1, r, w }, { 2, r } }").replace("&mine", "rows")
    check("rows of a table are seen", PLAIN | one | {"cpu/rpc/first.c": rows}, 1, say)
    differ = rows.replace("{ 2, r }", "{ 2, q }").replace("static const", "int q(void) { return 2; }\nstatic const")
    check("a member whose rows differ passes", PLAIN | one | {"cpu/rpc/first.c": differ}, 1, "a call: write is",
          lacking=("read is",))
    macro = rows.replace("{ 2, r }", "ROW")
    check("nobody knows what a macro makes", PLAIN | one | {"cpu/rpc/first.c": "#define ROW { 2, r }\n" + macro}, 0,
          lacking=("points to",))
    member = "struct m { void (*done)(void); }; void d(void); void m(struct m *m) { m->done = d; }"
    check("a member that is assigned is seen", PLAIN | {"cpu/rpc/m.c": member}, 1, "cpu/rpc/m.c: m points", "done is d")
    stored = member.replace("(*done)", "(*_Atomic done)").replace("m->done = d", "atomic_store(&m->done, d)")
    stored = "#include <stdatomic.h>\n" + stored
    check("a member that is stored is seen", PLAIN | {"cpu/rpc/m.c": stored}, 1, "done is d")
    given = "struct m { void (*done)(void); };\nvoid m(struct m *m, void (*f)(void))\n{\n    m->done = f;\n}"
    check("nobody knows what a caller gives", PLAIN | {"cpu/rpc/m.c": given}, 0, lacking=("points to",))
    hidden = "static void f(void) {}\nvoid (*used)(void);\nvoid g(void) { used = 0; f(); }\n" + given
    check("a parameter hides a function of its name", PLAIN | {"cpu/rpc/m.c": hidden}, 0, lacking=("points to",))
    taken = "void *m_find(void *);\n" + member.replace("m->done = d", "m->done = d; m_find(&m->done)")
    check("nobody knows what is done with an address",
          PLAIN | {"cpu/rpc/m.c": taken, "cpu/rpc/f.c": "void *m_find(void *p) { return p; }"}, 0,
          lacking=("points to",))
    variable = "void d(void); static void (*v)(void); void set(void) { v = d; } void m(void) { v(); }"
    check("a variable is seen", PLAIN | {"cpu/rpc/m.c": variable}, 1, "cpu/rpc/m.c: v points to one function", "is d")
    check("a variable with two values passes", PLAIN | {"cpu/rpc/m.c": variable + " void g(void) { v = set; }"}, 0,
          lacking=("points to",))
    kind = "typedef void act(void); void d(void); static act *v = d; void m(void) { v(); }"
    check("a type's name is known", PLAIN | {"cpu/rpc/m.c": kind}, 1, "v points to one function", "is d")


def main():
    debt = "tools/circles.debt"
    document = "docs/architecture.md"
    against = {"cpu/common/log.c": "void a(void); void log_it(void) { a(); }"}
    header = {"cpu/rpc/a.h": "enum { A };", "cpu/common/log.c": '#include "cpu/rpc/a.h"\nvoid log_it(void) {}'}
    second = {"cpu/rpc/e.c": "void f(void); void e(void) { f(); }",
              "cpu/rpc/f.c": "void e(void); void f(void) { e(); }"}

    check("a small circle is counted, and passes", PLAIN, 0,
          "3 of  4 files of cpu/rpc in one circle", lacking=("debt",))
    check("which files are in the circle, through which symbols, and where to cut", PLAIN, 0,
          "3 files: a b c", "a → b: b", "c → a: a", "1 files if b did not call c (c)",
          lacking=("b → d",), arguments=("cpu/rpc",))
    check("two circles of one room are told apart", PLAIN | second, 0,
          "3 files: a b c", "2 files: e f", arguments=("cpu/rpc",))
    check("a table of functions makes no circle",
          PLAIN | {"cpu/rpc/b.c": "void c(void); void (*const b[])(void) = { c };",
          "cpu/rpc/a.c": "extern void (*const b[])(void); void a(void) { b[0](); }"}, 0, lacking=("in one circle",))
    check("a circle above the goal fails", PLAIN | ring(6), 1,
          "the circle in cpu/rpc has 6 files; at most 5 are allowed")
    check("a circle that the debt names passes", PLAIN | ring(6) | {debt: "circle cpu/rpc 6"}, 0,
          "debt: at most 6; goal: 5")
    check("a circle that has grown beyond its debt fails", PLAIN | ring(7) | {debt: "circle cpu/rpc 6"}, 1,
          "has 7 files; at most 6")
    check("a debt that is paid is named", PLAIN | ring(6) | {debt: "circle cpu/rpc 9"}, 0,
          "has 6 files, no longer 9")
    check("--lower takes out what is paid",
          PLAIN | ring(6) | {debt: "circle cpu/rpc 9\narrow cpu/rpc/a.c cpu/none # for now"}, 0,
          arguments=("--lower",), after=debt_is("circle cpu/rpc 6"))
    check("--lower takes out a room that has reached the goal", PLAIN | {debt: "circle cpu/rpc 9"}, 0,
          arguments=("--lower",), after=debt_is())
    check("--lower never raises", PLAIN | ring(7) | {debt: "circle cpu/rpc 6"}, 1,
          arguments=("--lower",), after=debt_is("circle cpu/rpc 6"))

    check("an arrow that the table does not allow fails", PLAIN | against, 1,
          "cpu/common/log.c uses cpu/rpc, which docs/architecture.md does not allow: a")
    named = "arrow cpu/common/log.c cpu/rpc # it asks"
    check("an arrow that the debt names passes", PLAIN | against | {debt: named}, 0, "(debt: it asks)")
    check("an arrow in the debt needs a reason", PLAIN | against | {debt: "arrow cpu/common/log.c cpu/rpc"}, 2,
          "an arrow needs its reason")
    check("--lower keeps the reason", PLAIN | against | {debt: "circle cpu/rpc 9\n" + named}, 0,
          arguments=("--lower",), after=debt_is(named))
    call = "arrow cpu/rpc/c.c cpu/rpc/a.c # it reports"
    check("a call that the debt names makes no circle", PLAIN | {debt: call}, 0, lacking=("in one circle",))
    check("a named call that is gone is paid", PLAIN | {debt: "arrow cpu/rpc/a.c cpu/rpc/c.c # it reports"}, 0,
          "cpu/rpc/a.c does not use cpu/rpc/c.c any longer", arguments=("--lower",), after=debt_is())
    check("a header is an arrow too", PLAIN | header, 1,
          "cpu/common/log.c uses cpu/rpc", "cpu/rpc/a.h")
    only = {document: TABLE.replace("| – |", "| `cpu/rpc/a.h` |")}
    check("a single header can be allowed", PLAIN | header | only, 0)
    declares = {"cpu/rpc/a.h": "void a(void);",
                "cpu/common/log.c": '#include "cpu/rpc/a.h"\nvoid log_it(void) { a(); }'}
    check("with it, what the header declares", PLAIN | declares | only, 0)
    more = {"cpu/common/log.c": '#include "cpu/rpc/a.h"\nvoid b(void); void log_it(void) { a(); b(); }'}
    check("with it, nothing else of the folder", PLAIN | declares | more | only, 1,
          "cpu/common/log.c uses cpu/rpc, which docs/architecture.md does not allow: b")
    check("a folder without a row fails", PLAIN | {"cpu/new/x.c": "void x(void) {}"}, 1,
          "cpu/new has no row")
    check("a folder belongs to the row of the folder above it",
          PLAIN | {"cpu/rpc/call/x.c": "void log_it(void); void x(void) { log_it(); }"}, 0)
    table = TABLE.replace("`cpu/common/` |", "`cpu/common/*` |") + "| `cpu/common/low/` | a floor | – |\n"
    floors = {document: table,
              "cpu/common/low/x.c": "void low(void) {}", "cpu/rpc/d.c": "void low(void); void d(void) { low(); }"}
    check("`folder/*` allows the folder and the rows below it", PLAIN | floors, 0)
    check("a folder alone does not allow the rows below it",
          PLAIN | floors | {document: floors[document].replace("/*", "/")}, 1, "cpu/rpc/d.c uses cpu/common/low")
    check("a row without files fails", PLAIN | {document: TABLE + "| `cpu/gone` | – | – |\n"}, 1,
          "cpu/gone has a row, but no C file")
    check("an allowed arrow that no file uses fails",
          PLAIN | {"cpu/rpc/c.c": "void a(void); void c(void) { a(); }"}, 1, "cpu/rpc may use cpu/common, but does not")
    check("allowed arrows in a circle fail", PLAIN | against | {document: TABLE.replace("| – |", "| `cpu/rpc` |")}, 1,
          "the allowed arrows run in a circle: cpu/common cpu/rpc")

    pointers(debt)

    check("no table: no answer", PLAIN | {document: "nothing"}, 2, "has no table")
    check("no object files: no answer", {document: TABLE}, 2, "build first")
    check("a file that was not built is named", PLAIN, 0, "no object file: cpu/rpc/d.c", unbuilt=("cpu/rpc/d.c",))
    return plan()


if __name__ == "__main__":
    sys.exit(main())
