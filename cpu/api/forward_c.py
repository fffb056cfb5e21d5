"""forward_c.py: calls that are only handed on: rows of driver.api with a number of a procedure (the word call=).

For each of them: its structures and procedure in the protocol, the server's handler, the client core's function,
and for rows of the class forward the body in libcuda.so.1. README.md has the rules.
"""

import os

import api
import c_types
import driver_c
from forward_parameters import (
    Context, Device, Enum, Handle, InStruct, Object, Out, OutEnum, OutObject, OutStruct, Plain,
)
from forward_types import Library, Structs, WIRE, snake

PERHAPS_UNUSED = "__attribute__((unused)) static inline int"  # clang warns of functions that no call needs
MADE = "/* Made by cpu/api/generate.py. */"
PROTOCOL = os.path.join(os.path.dirname(os.path.dirname(api.HERE)), "cpu/rpc/cpu_rpc_prot.x")
ROLES = ("", "makes", "ends", "lends")  # what a call does to an object; "": only uses it
MARK_TYPES, MARK_PROCEDURES = "/* FORWARDED TYPES */", "/* FORWARDED PROCEDURES */"


class Call:
    """One row."""

    def __init__(self, function, library, structs):
        self.function, self.library, self.structs = function, library, structs
        self.field = driver_c.field(function)
        self.name = snake(self.field)
        self.number = int(function.options["call"])
        self.parameters = [self.parameter(p) for p in function.parameters]
        self.outs = [p for p in self.parameters if p.out]
        self.synchronous = "async" not in function.options
        made = next((p for p in self.parameters if isinstance(p, OutObject)), None)
        objects = [p for p in self.parameters if isinstance(p, Object)]
        named = objects[0] if len(objects) == 1 else None
        self.role = function.options.get("role", "")
        if self.role not in ROLES:
            self.wrong(f"role={self.role}: not one of makes, ends, lends")
        self.makes = made if self.role == "makes" else None
        self.ends = named if self.role == "ends" else None
        self.lends = named if self.role == "lends" and made else None  # what is returned belongs to this one
        returns = self.role in ("makes", "lends")
        if bool(made) != returns or (self.role and not (self.makes or self.ends or self.lends)):
            self.wrong("makes, ends or lends an object in no way that can be generated")
        self.charged = "charge" in function.options
        if self.charged and not (self.makes or self.ends):
            self.wrong("has the word charge, and neither makes nor ends an object")
        if self.outs and not self.synchronous:
            self.wrong("has the word async and something to answer")
        named = [p for p in self.parameters if p.context]
        self.context = not any(p.device for p in self.parameters)  # the core's function is given one
        self.asks_context = self.context and (not named or isinstance(named[0], Context))  # the protocol names it

    def wrong(self, what):
        raise api.Wrong(f"{self.function.place}: {self.function.name}: {what}")

    def parameter(self, p):
        library, pointer = self.library, p.type.endswith("*")
        if not pointer:
            if p.type == "CUcontext":
                return Context(p, self)
            if p.type == "CUdevice":
                return Device(p, self, "int")
            alias = library.handle(p.type)
            if alias:
                return (Object if "object" in alias.options else Handle)(p, self, alias)
            if p.type in library.types.enums:
                return Enum(p, self, library.highest(p.type))
            if library.plain(p.type):
                return Plain(p, self, WIRE[library.plain(p.type)])
        else:
            target = c_types.base(p.type)
            struct = target in library.types.structs
            if struct and p.type.startswith("const "):
                return InStruct(p, self, target, self.structs.need(target))
            if p.use == "out" and not p.count and p.type.count("*") == 1:
                alias = library.handle(target)
                if struct:
                    return OutStruct(p, self, target, self.structs.need(target))
                if alias and "object" in alias.options:
                    return OutObject(p, self, target, alias.options["wire"])
                if target in library.types.enums:
                    return OutEnum(p, self, target)
                if library.plain(target):
                    return Out(p, self, target, WIRE[library.plain(target)])
        if not library.known(c_types.base(p.type)):
            return self.wrong(f"the type {c_types.base(p.type)} of the parameter {p.name} is not described in "
                              "driver_types.api")
        return self.wrong(f"the parameter {p.name} cannot be forwarded: it needs a class by hand")

    # ---- the protocol ----

    def arguments_type(self):
        return f"{self.name}_args"

    def result_type(self):
        return (f"{self.name}_result" if self.outs else "plain_result") if self.synchronous else "void"

    def protocol_types(self):
        members = ["flyt_id context"] if self.asks_context else []
        members += [m for p in self.parameters for m in p.arguments()]
        yield f"struct {self.arguments_type()} {{ {' '.join(m + ';' for m in members)} }};"
        if self.outs:
            members = ["flyt_head head", *(m for p in self.parameters for m in p.results())]
            yield f"struct {self.result_type()} {{ {' '.join(m + ';' for m in members)} }};"
        yield f"%#define FLYT_CLASS_FLYT_{self.name.upper()} {'SYNC' if self.synchronous else 'ASYNC'}"

    def procedure(self):
        return f"{self.result_type()} FLYT_{self.name.upper()}({self.arguments_type()}) = {self.number};"

    # ---- the server ----

    def server(self):
        if "served" in self.function.options:
            return
        if self.charged:  # the driver's part is the loader's, without session.lock
            yield from self.server_function(f"static void charged_{self.name}", self.charged_handler())
            serves = [
                f"if (!loader_serve(session, call, charged_{self.name}))",
                "    call_fail(session, call, CUDA_ERROR_OUT_OF_MEMORY);",
            ]
        else:
            serves = self.handler()
        yield from self.server_function(f"void serve_{self.name}", serves)

    def server_function(self, name, lines):
        entry = int(self.function.options["entry"])
        yield f"{name}(struct session *session, struct call *call)"
        yield "{"
        if entry > driver_c.OLDEST_HEADER:
            yield f"#if CUDA_VERSION >= {entry}"
        yield from ("    " + line for line in lines)
        if entry > driver_c.OLDEST_HEADER:
            yield "#else"
            yield "    call_fail(session, call, CUDA_ERROR_NOT_SUPPORTED);"
            yield "#endif"
        yield "}"
        yield ""

    def charged_handler(self):
        """By the loader, whose work a context's end waits for."""
        yield f"const {self.arguments_type()} *args = &call->args.{self.name};"
        if self.ends:
            yield f"CUresult r = object_end_charged(session, &object_{self.ends.kind}, args->{self.ends.name});"
            yield "session_reply_plain(session, call->xid, r, false);"
            return
        yield f"{self.result_type()} result;"
        yield "memset(&result, 0, sizeof result);"
        yield "struct context *context;"
        for p in self.parameters:
            yield from p.server_locals()
        yield "pthread_mutex_lock(&session->lock);"
        yield "CUresult r = server_find_context(session, args->context, &context);"
        for p in self.parameters:
            yield from guarded("r == CUDA_SUCCESS", p.server_checks())
        yield "pthread_mutex_unlock(&session->lock);"
        yield "if (r == CUDA_SUCCESS) {"
        yield "    struct charge charge = charge_begin(session, context);"
        yield f"    r = {self.calls_driver()};"
        made = f"&object_{self.makes.kind}, (uint64_t){self.makes.name}"
        yield "    if (r == CUDA_SUCCESS)"
        yield f"        r = object_charge(session, &charge, {made});"
        yield "    charge_finish(session);"
        yield "}"
        yield "pthread_mutex_lock(&session->lock);"
        for p in self.parameters:
            yield from guarded("r == CUDA_SUCCESS", p.server_stores())
        yield "pthread_mutex_unlock(&session->lock);"
        yield f"session_reply(session, call->xid, (xdrproc_t)xdr_{self.result_type()}, &result, r, false);"

    def calls_driver(self):
        return f"session->gpu->{self.field}({', '.join(p.server_gives() for p in self.parameters)})"

    def handler(self):
        yield f"const {self.arguments_type()} *args = &call->args.{self.name};"
        if self.outs:
            yield f"{self.result_type()} result;"
            yield "memset(&result, 0, sizeof result);"
        if self.ends:
            yield f"CUresult r = object_end(session, &object_{self.ends.kind}, args->{self.ends.name});"
        else:
            yield from self.driver_call()
        if not self.synchronous:
            yield "if (r != CUDA_SUCCESS)"
            yield "    call_fail(session, call, r);"
        elif self.outs:
            yield (
                f"session_reply(session, call->xid, (xdrproc_t)xdr_{self.result_type()}, &result, r, false);"
            )
        else:
            yield "session_reply_plain(session, call->xid, r, false);"

    def driver_call(self):
        needs_context = self.makes or any(isinstance(p, Context) for p in self.parameters)
        if self.asks_context:
            yield "struct context *context;"
        for p in self.parameters:
            yield from p.server_locals()
        if self.asks_context:
            yield "CUresult r = server_find_context(session, args->context, &context);"
        else:
            yield "CUresult r = CUDA_SUCCESS;"
        if self.asks_context and not needs_context:
            yield "(void)context;"
        for p in self.parameters:
            yield from guarded("r == CUDA_SUCCESS", p.server_checks())
        call = self.calls_driver()
        if self.synchronous:
            yield from guarded("r == CUDA_SUCCESS", [f"r = {call};"])
        else:
            yield "if (r == CUDA_SUCCESS) {"
            yield "    executor_driver_enter(session);"
            yield f"    r = {call};"
            yield "    executor_driver_leave(session);"
            yield "}"
        for p in self.parameters:
            yield from guarded("r == CUDA_SUCCESS", p.server_stores())

    # ---- the client core ----

    def devices(self):
        return [p for p in self.parameters if p.device]

    def session_of(self, device):
        """The name of the variable that holds the session of the device."""
        return "session" if device is self.devices()[0] else "other"

    def core_prototype(self):
        parameters = ["core_context *context"] if self.context else []
        for p in self.parameters:
            if p.core_type():
                parameters.append(c_types.declaration(p.core_type(), p.name))
        return f"int core_{self.name}({', '.join(parameters)})"

    def core(self):
        yield self.core_prototype()
        yield "{"
        yield "    CANCEL_DEFERRED;"
        yield f"    {self.arguments_type()} args = {{ 0 }};"
        for p in self.parameters:
            if isinstance(p, InStruct) and p.p.maybe:
                yield f"    {p.wire} wire_{p.name};"
        if not self.context:
            yield "    struct client_session *session = NULL;"
        if len(self.devices()) > 1:
            yield "    struct client_session *other = NULL;"
        yield f"    int code = {'context_enter(context)' if self.context else 'core_enter()'};"
        if self.asks_context:
            yield "    if (!code)"
            yield "        args.context = context->wire;"
        for p in self.parameters:
            yield from ("    " + line for line in guarded("!code", p.core_fills()))
        yield "    if (code)"
        yield "        return code;"
        if len(self.devices()) > 1:  # devices of different servers have nothing in common
            yield "    if (other != session) {"
            yield from (f"        *{p.name} = 0;" for p in self.outs)
            yield "        return 0;"
            yield "    }"
        session = "context->session" if self.context else "session"
        procedure, encode = f"{session}, FLYT_{self.name.upper()}", f"(xdrproc_t)xdr_{self.arguments_type()}"
        if not self.synchronous:
            yield f"    return wire_send({procedure}, {encode}, &args);"
        elif not self.outs:
            yield f"    return wire_plain({procedure}, {encode}, &args);"
        else:
            decode = f"(xdrproc_t)xdr_{self.result_type()}"
            yield f"    {self.result_type()} result = {{ 0 }};"
            yield f"    code = wire_call({procedure}, {encode}, &args, {decode}, &result);"
            yield "    if (!code) {"
            for p in self.parameters:
                yield from ("        " + line for line in p.core_takes())
            yield "    }"
            yield f"    xdr_free({decode}, &result);"
            yield "    return code;"
        yield "}"
        yield ""

    # ---- libcuda.so.1 for programs ----

    def front(self):
        yield driver_c.body(self.function)
        yield "{"
        if self.context:
            yield "    core_context *context;"
            yield "    int error = driver_enter(&context);"
        else:
            yield "    int error = driver_ready();"
        for p in self.parameters:
            yield from ("    " + line for line in guarded("!error", p.front_checks()))
        given = ["context"] if self.context else []
        given += [p.front_gives() for p in self.parameters if p.core_type()]
        yield f"    return driver_waited(error ? error : core_{self.name}({', '.join(given)}));"
        yield "}"
        yield ""


def guarded(condition, lines):
    for line in lines:
        yield f"if ({condition})"
        yield f"    {line}"


# ---- the files ----


def calls():
    """(the calls in order of their numbers, the structures that they need)."""
    library = Library()
    structs = Structs(library)
    made = [Call(f, library, structs) for f in api.driver() if "call" in f.options and f.kind != "unsupported"]
    made.sort(key=lambda call: call.number)
    for one, other in zip(made, made[1:]):
        if one.number == other.number:
            other.wrong(f"its number {other.number} is that of {one.function.name}")
    return made, structs


def kinds(made):
    """(name of the kind, type of its handle, the call that ends one), for the kinds of objects."""
    aliases = api.driver_types().aliases
    for name, alias in aliases.items():
        if "object" in alias.options:
            ends = [call for call in made if call.ends and call.ends.p.type == name]
            if len(ends) == 1:
                yield alias, name, ends[0]


def protocol():
    """cpu_rpc_prot.x with the forwarded calls in it."""
    made, structs = calls()
    with open(PROTOCOL) as file:
        for line in file.read().splitlines():
            yield line
            if line.strip() == MARK_TYPES:
                yield from structs.wire
                for call in made:
                    yield from call.protocol_types()
            elif line.strip() == MARK_PROCEDURES:
                for call in made:
                    yield f"        {call.procedure()}"


def structures():
    """C: between the structures of the wire and those of the driver API, which the includer has declared."""
    _, structs = calls()
    yield MADE
    yield "/* Both give 0, or the CUresult to return. The includer says, for each kind of object, what its handles"
    yield "   are on the wire: <kind>_to_wire() and <kind>_from_wire(). session: the server's; NULL in the client. */"
    yield "#include <string.h>"
    yield ""
    yield '#include "cpu/rpc/cpu_rpc_prot.h"'
    yield ""
    yield "struct session;"
    yield ""
    yield from structs.code


def server_header():
    """Kinds of objects, and which procedures may block in the driver."""
    made, _ = calls()
    yield MADE
    yield "#ifndef FLYT_API_FORWARD_SERVER_H"
    yield "#define FLYT_API_FORWARD_SERVER_H"
    yield ""
    yield "#include <stdint.h>"
    yield ""
    yield "struct context;"
    yield "struct session;"
    for alias, _, _ in kinds(made):
        kind = alias.options["wire"]
        yield f"void {kind}_drop_all(struct session *, struct context *);"
        yield f"uint64_t {kind}_count(const struct session *);"
    yield "#define FORWARD_BLOCKING " + " ".join(
        f"FLYT_{call.name.upper()}," for call in made if "blocks" in call.function.options
    )
    yield ""
    yield "#endif"


def server():
    made, structs = calls()
    yield MADE
    yield '#include "cpu/server/tenant/charge.h"'
    yield '#include "cpu/server/code/code.h"'
    yield '#include "cpu/server/code/forward.h"'
    yield '#include "cpu/server/memory/object.h"'
    yield '#include "api/forward/server.h"'
    yield ""
    for alias, type_, end in kinds(made):
        kind = alias.options["wire"]
        yield f"static CUresult {kind}_end(const struct gpu *gpu, uint64_t handle)"
        yield "{"
        yield f"    return gpu->{end.field}(({type_})handle);"
        yield "}"
        yield f"static const struct object_kind object_{kind} = {{"
        yield f"    .kind = KIND_{kind.upper()}, .end = {kind}_end,"
        yield f"    .value = {'true' if alias.options['object'] == 'value' else 'false'},"
        yield f"    .missing = {alias.options.get('missing', 'CUDA_ERROR_INVALID_HANDLE')},"
        if "shape" in alias.options:
            yield f"    .shape = {alias.options['shape']},"
        yield "};"
        yield f"{PERHAPS_UNUSED} {kind}_to_wire(struct session *session, {type_} handle, uint64_t *name)"
        yield "{"
        yield f"    return (int)object_name(session, &object_{kind}, (uint64_t)handle, name);"
        yield "}"
        yield f"{PERHAPS_UNUSED} {kind}_from_wire(struct session *session, uint64_t name, {type_} *handle)"
        yield "{"
        yield "    uint64_t found = 0;"
        yield f"    int code = (int)object_look(session, &object_{kind}, name, &found);"
        yield f"    *handle = ({type_})found;"
        yield "    return code;"
        yield "}"
        yield f"void {kind}_drop_all(struct session *session, struct context *context)"
        yield "{"
        yield f"    objects_drop_all(session, context, &object_{kind});"
        yield "}"
        yield f"uint64_t {kind}_count(const struct session *session)"
        yield "{"
        yield f"    return objects_count(session, &object_{kind});"
        yield "}"
        yield ""
    if structs.code:
        yield '#include "api/forward/structures.h"'
        yield ""
    for call in made:
        yield from call.server()


def defaults():
    """DEFAULT(field, (parameters)): what a driver may lack of it; the call then gives the not-supported code."""
    yield MADE
    made, _ = calls()
    for call in made:
        function = call.function
        if function.options.get("server") == "optional":
            row = f"DEFAULT({call.field}, ({driver_c.arguments(function)}))"
            yield from driver_c.guarded(function, row)


def core_header():
    made, structs = calls()
    yield MADE
    yield "/* Calls that are only handed to the server's driver. Each costs one round trip, those of class ASYNC none."
    yield "   The parameters are those of the driver's function; enums are numbers. Errors as in core.h. */"
    yield "#ifndef FLYT_API_FORWARD_CORE_H"
    yield "#define FLYT_API_FORWARD_CORE_H"
    yield ""
    yield '#include "cpu/client/core/core.h"'
    yield ""
    yield from (f"struct {name};" for name in sorted(structs.done))
    for call in made:
        yield f"/* {call.function.name}: {'SYNC' if call.synchronous else 'ASYNC'} */"
        yield f"CORE_API {call.core_prototype()};"
    yield ""
    yield "#endif"


def core():
    made, structs = calls()
    yield MADE
    yield '#include "api/forward/core.h"'
    yield ""
    if structs.code:
        yield '#include "api/driver/types.h"'
        for alias, _, _ in kinds(made):  # the client has the server's numbers
            for way in ("to", "from"):
                name = f"{alias.options['wire']}_{way}_wire"
                yield f"{PERHAPS_UNUSED} {name}(void *none, uint64_t from, uint64_t *to)"
                yield "{"
                yield "    (void)none;"
                yield "    *to = from;"
                yield "    return 0;"
                yield "}"
        yield '#include "api/forward/structures.h"'
    yield '#include "cpu/client/core/code/forward.h"'
    yield '#include "cpu/common/cancel.h"'
    yield ""
    for call in made:
        yield from call.core()


def front():
    made, _ = calls()
    yield MADE
    yield '#include "cpu/client/driver/driver.h"'
    yield '#include "api/forward/core.h"'
    yield ""
    for call in made:
        if call.function.kind == "forward":
            yield from call.front()


def hostile():
    """C: forwarded_call() sends one of the calls, with nonsense."""
    made, _ = calls()
    yield MADE
    for call in made:
        yield f"static void nonsense_{call.name}(struct peer *peer)"
        yield "{"
        yield f"    {call.arguments_type()} args;"
        if call.asks_context:
            yield "    args.context = context();"
        for p in call.parameters:
            yield from ("    " + line for line in p.nonsense())
        result = "NULL"
        if call.synchronous:
            result = "&result"
            yield f"    {call.result_type()} result;"
            yield "    memset(&result, 0, sizeof result);"
        yield f"    ok(flyt_{call.name}_1(&args, {result}, peer->stub));"
        if call.synchronous:
            yield f"    xdr_free((xdrproc_t)xdr_{call.result_type()}, (char *)&result);"
        yield "}"
        yield ""
    yield "static void forwarded_call(struct peer *peer)"
    yield "{"
    yield "    static void (*const all[])(struct peer *) = {"
    yield from (f"        nonsense_{call.name}," for call in made)
    yield "    };"
    yield "    all[below(sizeof all / sizeof all[0])](peer);"
    yield "}"


def listed():
    """The golden list: number, class, function, arguments, results."""
    made, _ = calls()
    for call in made:
        arguments = ", ".join(m for p in call.parameters for m in p.arguments())
        results = ", ".join(m for p in call.parameters for m in p.results())
        context = "context, " if call.asks_context and arguments else "context" if call.asks_context else ""
        yield (
            f"{call.number} {'SYNC' if call.synchronous else 'ASYNC'} {call.function.name}({context}{arguments})"
            f"{' -> ' + results if results else ''}"
        )


MAKERS = {
    "cpu_rpc_prot.x": protocol,
    "structures.h": structures,
    "server.h": server_header,
    "server.c": server,
    "defaults.inc": defaults,
    "core.h": core_header,
    "core.c": core,
    "driver.c": front,
    "hostile.inc": hostile,
    "list.txt": listed,
}
