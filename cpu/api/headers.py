"""headers.py: reads NVIDIA's headers, for the checks of the description. Nothing that is built uses it.

The preprocessor of $CC does the reading. PyPI's packages lack crt/, which only defines empty keywords here, and the
headers of OpenGL, EGL and VDPAU are rarely installed, so small stand-ins are written for both.
"""

import os
import re
import subprocess
import tempfile
from collections import namedtuple

Function = namedtuple("Function", "name returns parameters chapter documentation")

RUNTIME = (
    "cuda_runtime_api.h",
    "cuda_profiler_api.h",
    "cuda_gl_interop.h",
    "cuda_egl_interop.h",
    "cuda_vdpau_interop.h",
)
DRIVER = ("cuda.h", "cudaProfiler.h", "cudaGL.h", "cudaEGL.h", "cudaVDPAU.h")

# What cuGetProcAddress gives, and since when.
DRIVER_ENTRIES = (
    "cudaTypedefs.h",
    "cudaProfilerTypedefs.h",
    "cudaGLTypedefs.h",
    "cudaEGLTypedefs.h",
    "cudaVDPAUTypedefs.h",
)
WINDOWS = ("cuWGLGetDevice",)

STAND_INS = {
    "crt/host_defines.h": "#define CUDARTAPI\n#define CUDART_CB\n#define __host__\n#define __device__\n"
    "#define __device_builtin__\n"
    "#define __cudart_builtin__\n#define __device_builtin_texture_type__\n#define __device_builtin_surface_type__\n"
    "#define __builtin_align__(n) __attribute__((aligned(n)))\n#define __align__(n) __attribute__((aligned(n)))\n"
    "#define CUDARTAPI_CDECL\n#define __location__(a)\n#define __specialization_static\n#define __inline__ inline\n",
    "GL/gl.h": "typedef unsigned int GLuint;\ntypedef unsigned int GLenum;\n",
    "EGL/egl.h": "typedef int EGLint;\n",
    "EGL/eglext.h": "typedef void *EGLImageKHR;\ntypedef void *EGLStreamKHR;\ntypedef void *EGLSyncKHR;\n",
    "vdpau/vdpau.h": "typedef unsigned int VdpDevice;\ntypedef unsigned int VdpVideoSurface;\n"
    "typedef unsigned int VdpOutputSurface;\n"
    "typedef int VdpGetProcAddress(void);\n",
}


def write_stand_ins(folder):
    for path, text in STAND_INS.items():
        os.makedirs(os.path.join(folder, os.path.dirname(path)), exist_ok=True)
        with open(os.path.join(folder, path), "w") as file:
            file.write(text)


def preprocess(include, names, defines=()):
    """The preprocessed text, with its comments, of those of `names` that the folder `include` has."""
    present = [name for name in names if os.path.exists(os.path.join(include, name))]
    with tempfile.TemporaryDirectory() as folder:
        write_stand_ins(folder)
        source = "".join(f'#include "{name}"\n' for name in present)
        command = [
            *os.environ.get("CC", "cc").split(),
            "-E",
            "-C",
            "-P",
            "-w",
            "-I",
            folder,
            "-I",
            include,
            *(f"-D{d}" for d in defines),
            "-x",
            "c",
            "-",
        ]
        run = subprocess.run(command, input=source, capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(f"{include}: the preprocessor failed:\n{run.stderr[:2000]}")
    return run.stdout


def squeeze(text):
    """One blank between words, none around punctuation: `void * *p` and `void **p` become the same."""
    text = re.sub(r"\s+", " ", text).strip()
    text = re.sub(r"\s*([*(),;\[\]{}=])\s*", r"\1", text)
    return re.sub(r"\*(?=\w)", "* ", re.sub(r"(?<=\w)\*", " *", text)).strip()


NOISE = re.compile(
    r"\b(extern|__host__|__device__|__cudart_builtin__|CUDARTAPI|CUDAAPI|struct|enum|union|static|inline"
    r"|__inline__|__inline)\b"
    r"|__attribute__\s*\(\(.*?\)\)|\bCUDART_DEVICE\b"
)


def parameter(text):
    """(type, name) of one parameter; a name may be missing. Keywords `struct` and `enum` are dropped."""
    text = squeeze(NOISE.sub(" ", text))
    if text in ("", "void"):
        return None
    array = ""
    if match := re.search(r"(\[.*\])$", text):
        array, text = match.group(1), text[: match.start()]
    match = re.match(r"^(.*?[\s*])(\w+)$", text)
    kind, name = (match.group(1), match.group(2)) if match else (text, "")
    if not match or name in ("int", "char", "long", "float", "const", "short", "double"):
        kind, name = text, ""
    if kind.strip() == "unsigned":
        kind = "unsigned int"
    return squeeze(kind) + (" *" if array else ""), name


def functions(include, names, prefix, defines=("__CUDA_API_VERSION_INTERNAL",)):
    """name → Function of every prototype whose name begins with `prefix` (cu or cuda, also after two underscores)."""
    text = preprocess(include, names, defines)
    found, titles, stack, pending, comment = {}, {}, [], None, ""
    for piece in re.split(r"(/\*.*?\*/|//[^\n]*)", text, flags=re.S):
        if piece.startswith("/*"):
            for word in re.finditer(r"\\(?:defgroup|addtogroup) (\w+)[ \t]*([^\n*]*)|@\{|@\}", piece):
                if word.group(1):
                    pending = word.group(1)
                    titles.setdefault(pending, word.group(2).strip())
                elif word.group(0) == "@{":
                    stack.append(pending or (stack[-1] if stack else ""))
                    pending = None
                elif stack:
                    stack.pop()
            if "\\brief" in piece:
                comment = piece
            continue
        if piece.startswith("//"):
            continue
        for match in re.finditer(r"([\w\s*]+?)\b((?:__)?" + prefix + r"\w*)\s*\(([^;{}]*)\)\s*;", piece):
            returns = squeeze(NOISE.sub(" ", match.group(1)))
            if not returns or returns.startswith("typedef") or returns == "return":
                continue
            parameters = [p for p in map(parameter, split_parameters(match.group(3))) if p]
            chapter = titles.get(stack[-1], "") if stack else ""
            old = found.get(match.group(2))
            if old and not chapter:
                chapter = old.chapter
            found[match.group(2)] = Function(match.group(2), returns, parameters, chapter, comment if stack else "")
    return found


def split_parameters(text):
    """Splits at the commas outside parentheses."""
    pieces, depth, piece = [], 0, ""
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and not depth:
            pieces.append(piece)
            piece = ""
        else:
            piece += character
    return [*pieces, piece]


# ---- types ----

Struct = namedtuple("Struct", "name union members")  # members: Member or Struct (name "" where anonymous)
Member = namedtuple("Member", "type name array")
Enum = namedtuple("Enum", "name values")  # [(name, text or None)]


def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)


def closing(text, at):
    """The index behind the brace that closes the one at `at`."""
    depth = 0
    for index in range(at, len(text)):
        depth += (text[index] == "{") - (text[index] == "}")
        if not depth:
            return index + 1
    raise ValueError("a brace is not closed")


ATTRIBUTE = re.compile(r"__attribute__\s*\(\(.*?\)\)\)?|__device_builtin__|__align__\(\d+\)|__builtin_align__\(\d+\)")


def members(text):
    """The members of the body of a struct or union, in order. A nested one that is declared on the way is a Struct."""
    found, at = [], 0
    text = ATTRIBUTE.sub(" ", text)
    while match := re.compile(r"\s*(struct|union)\s*(\w*)\s*\{|\s*([^;{}]+);", re.S).match(text, at):
        if match.group(1):
            end = closing(text, match.end() - 1)
            body = text[match.end() : end - 1]
            tail = re.compile(r"\s*([^;]*);").match(text, end)
            declarator = tail.group(1).strip()
            name, array = re.match(r"(\w*)((?:\[.*?\])*)$", declarator.replace(" ", "")).groups()
            found.append((Struct(name, match.group(1) == "union", members(body)), array))
            at = tail.end()
            continue
        declaration = squeeze(re.sub(r"\b(struct|enum|union)\b", " ", match.group(3)))
        at = match.end()
        if callback := re.match(r"(.*)\(\s*\*\s*(\w+)\)\s*\((.*)\)$", declaration):
            found.append(Member("function *", callback.group(2), ""))
            continue
        first = re.match(r"(.*?[\s*])(\w+(?:\[[^,]*\])*(?:,\*?\w+(?:\[[^,]*\])*)*)$", declaration)
        if not first:
            raise ValueError(f"a member that is not understood: {declaration}")
        for piece in first.group(2).split(","):
            name, array = re.match(r"\*?(\w+)(.*)$", piece).groups()
            found.append(Member(squeeze(first.group(1)), name, array))
    return found


def numbers(enum, known=None):
    """{name: number} of an enum; a value without a number is one more than that before it."""
    found, following = {}, 0
    for name, text in enum.values:
        if text is not None:
            plain = re.sub(r"\b(\d\w*?)[uUlL]+\b", r"\1", text)
            following = eval(plain, {"__builtins__": {}}, {**(known or {}), **found})  # constants of NVIDIA's header
        found[name] = following
        following += 1
    return found


def types(include, names, defines=()):
    """(structs, enums, aliases) by name. An alias is what a typedef of a plain name says."""
    text = ATTRIBUTE.sub(" ", without_comments(preprocess(include, names, defines)))
    structs, enums, aliases = {}, {}, {}
    for match in re.finditer(r"\b(typedef\s+)?(struct|union|enum)\s*(\w*)\s*\{", text):
        end = closing(text, match.end() - 1)
        body = text[match.end() : end - 1]
        tail = re.compile(r"\s*([\w\s,*]*?)\s*;").match(text, end)
        tag, new = match.group(3), []
        if match.group(1) and tail:
            new = [word for word in re.split(r"\s*,\s*", tail.group(1)) if word and "*" not in word]
        if match.group(2) == "enum":
            values = []
            for item in body.split(","):
                if item.strip():
                    name, _, value = item.partition("=")
                    values.append((name.strip(), value.strip() or None))
            for name in dict.fromkeys([tag, *new]):
                if name:
                    enums[name] = Enum(name, values)
        else:
            try:
                inside = members(body)
            except (ValueError, AttributeError):
                continue  # C++ and system headers
            for name in dict.fromkeys([tag, *new]):
                if name:
                    structs[name] = Struct(name, match.group(2) == "union", inside)
    for match in re.finditer(r"\btypedef\s+([^;{}()]+?)\s*(\w+)\s*;", text):
        aliases[match.group(2)] = squeeze(re.sub(r"\b(struct|enum|union)\b", " ", match.group(1)))
    for match in re.finditer(
        r"\btypedef\s+[^;{}()]*?\(\s*(?:CUDART_CB|CUDA_CB)?\s*\*\s*(\w+)\s*\)\s*\(([^;{}]*?)\)\s*;", text
    ):
        aliases[match.group(1)] = "function *"
    return structs, enums, aliases
