"""forward_parameters.py: what a parameter of a forwarded call (forward_c.py) needs in each place: in the protocol, the
server's handler, the core's function and the body in libcuda.so.1. Each kind of parameter is a class.
"""


class Parameter:
    """What one parameter is, in each of the places. Nothing, unless a kind of parameter says otherwise."""

    context = False  # it says in which context the call is made
    device = False  # the call names a device
    out = False

    def __init__(self, p, call):
        self.p, self.name, self.call = p, p.name, call

    def arguments(self):
        """Members of the protocol's structure of arguments."""
        return []

    def results(self):
        return []

    def server_locals(self):
        return []

    def server_checks(self):
        """Lines, each run while r is CUDA_SUCCESS."""
        return []

    def server_gives(self):
        """What the driver's function is given."""
        return f"args->{self.name}"

    def server_stores(self):
        """Lines, run when the driver's function has succeeded."""
        return []

    def core_type(self):
        """The type of the core function's parameter; "": it has none."""
        return self.p.type

    def core_fills(self):
        """Lines, each run while code is 0."""
        return []

    def core_takes(self):
        return []

    def front_checks(self):
        """Lines of libcuda's body, each run while error is 0."""
        return []

    def front_gives(self):
        return self.name

    def nonsense(self):
        """Lines that fill the argument, for the test that sends nonsense (tests/server/hostile_forward.c)."""
        type_ = f"__typeof__(args.{self.name})"
        return [f"args.{self.name} = below(9) ? ({type_})below(2000) : ({type_})any();"]


class Plain(Parameter):
    def __init__(self, p, call, wire):
        super().__init__(p, call)
        self.wire = wire

    def arguments(self):
        return [f"{self.wire} {self.name}"]

    def server_gives(self):
        return f"({self.p.type})args->{self.name}" if self.wire != self.p.type else f"args->{self.name}"

    def core_type(self):
        return self.call.library.plain(self.p.type)

    def core_fills(self):
        return [f"args.{self.name} = {self.name};"]


class Device(Plain):
    device = True

    def server_locals(self):
        return [f"const struct device *{self.name} = server_device_find(session, args->{self.name});"]

    def server_checks(self):
        return [f"r = {self.name} ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;"]

    def server_gives(self):
        return f"{self.name}->handle"

    def core_fills(self):
        return [f"code = forward_device({self.name}, &{self.call.session_of(self)}, &args.{self.name});"]

    def front_checks(self):
        return [f"error = driver_device({self.name});"]

    def nonsense(self):
        return [f"args.{self.name} = device();"]


class Enum(Plain):
    def __init__(self, p, call, limits):
        super().__init__(p, call, "int")
        self.low, self.high = limits

    def server_checks(self):
        return [
            f"r = args->{self.name} >= {self.low} && args->{self.name} <= {self.high} "
            "? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;"
        ]

    def core_type(self):
        return "int"

    def front_checks(self):
        return [
            f"error = (int){self.name} >= {self.low} && (int){self.name} <= {self.high} "
            "? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;"
        ]

    def front_gives(self):
        return f"(int){self.name}"

    def nonsense(self):
        return [f"args.{self.name} = below(9) ? (int)below({self.high + 3}) : (int)any();"]


class Context(Parameter):
    """A context that the call names. The core's function has it as its first parameter."""

    context = True

    def nonsense(self):
        return []

    def server_gives(self):
        return "context->handle"

    def core_type(self):
        return ""

    def front_checks(self):
        return [f"error = driver_context({self.name}, &context);"]


class Handle(Parameter):
    """Something that has an id: server_find_<kind>() and the core's forward_<kind>() find it."""

    context = True

    def __init__(self, p, call, alias):
        super().__init__(p, call)
        self.alias, self.kind = alias, alias.options["wire"]

    def arguments(self):
        return [f"flyt_id {self.name}"]

    def server_locals(self):
        return [f"{self.p.type} {self.name} = NULL;"]

    def server_checks(self):
        return [f"r = server_find_{self.kind}(session, args->{self.name}, &{self.name});"]

    def server_gives(self):
        return self.name

    def core_type(self):
        return self.alias.type

    def core_fills(self):
        return [f"code = forward_{self.kind}(context, {self.name}, &args.{self.name});"]

    def front_checks(self):
        return [f"error = driver_{self.kind}(&context, {self.name});"]

    def nonsense(self):
        return [f"args.{self.name} = id(0);"]


class Object(Parameter):
    """An object of a kind whose calls are all made here: the server's table of objects has it
    (cpu/server/memory/object.h)."""

    context = True

    def __init__(self, p, call, alias):
        super().__init__(p, call)
        self.kind = alias.options["wire"]

    def arguments(self):
        return [f"unsigned hyper {self.name}"]

    def server_locals(self):
        return [f"uint64_t {self.name} = 0;"]

    def server_checks(self):
        return [f"r = object_use(session, &object_{self.kind}, args->{self.name}, &{self.name});"]

    def server_gives(self):
        return f"({self.p.type}){self.name}"

    def core_type(self):
        return "uint64_t"

    def core_fills(self):
        return [f"args.{self.name} = {self.name};"]

    def nonsense(self):
        return [f"args.{self.name} = below(5) ? below(4) : any();"]


class Out(Parameter):
    """The function stores a number there."""

    out = True

    def __init__(self, p, call, target, wire):
        super().__init__(p, call)
        self.target, self.wire = target, wire

    def results(self):
        return [f"{self.wire} {self.name}"]

    def server_locals(self):
        return [f"{self.target} {self.name} = 0;"]

    def server_gives(self):
        return f"&{self.name}"

    def server_stores(self):
        return [f"result.{self.name} = {self.name};"]

    def core_type(self):
        return f"{self.call.library.plain(self.target)} *"

    def core_takes(self):
        store = f"*{self.name} = result.{self.name};"
        return [f"if ({self.name})", f"    {store}"] if self.p.maybe else [store]

    def front_checks(self):
        return [] if self.p.maybe else [f"error = {self.name} ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;"]

    def nonsense(self):
        return []


class OutEnum(Out):
    def __init__(self, p, call, target):
        super().__init__(p, call, target, "int")

    def server_locals(self):
        return [f"{self.target} {self.name} = ({self.target})0;"]

    def server_stores(self):
        return [f"result.{self.name} = (int){self.name};"]

    def core_type(self):
        return "int *"

    def front_gives(self):
        return f"(int *){self.name}"


class OutObject(Out):
    """The function makes an object."""

    def __init__(self, p, call, target, kind):
        super().__init__(p, call, target, "unsigned hyper")
        self.kind = kind

    def server_stores(self):
        given = f"(uint64_t){self.name}, &result.{self.name}"
        owner = self.call.lends
        if owner:
            lender = f"&object_{owner.kind}, args->{owner.name}"
            return [f"r = object_lend(session, {lender}, &object_{self.kind}, {given});"]
        return [f"r = object_add(session, context, &object_{self.kind}, {given});"]

    def core_type(self):
        return "uint64_t *"


class InStruct(Parameter):
    def __init__(self, p, call, target, wire):
        super().__init__(p, call)
        self.target, self.wire = target, wire

    def arguments(self):
        return [f"{self.wire} {'*' if self.p.maybe else ''}{self.name}"]

    def server_locals(self):
        return [f"{self.target} {self.name};"]

    def server_checks(self):
        if self.p.maybe:
            given = f"args->{self.name}"
            return [f"r = {given} ? (CUresult)from_wire_{self.target}(session, {given}, &{self.name}) : CUDA_SUCCESS;"]
        return [f"r = (CUresult)from_wire_{self.target}(session, &args->{self.name}, &{self.name});"]

    def server_gives(self):
        return f"args->{self.name} ? &{self.name} : NULL" if self.p.maybe else f"&{self.name}"

    def core_type(self):
        return f"const struct {self.target} *"

    def nonsense(self):
        if self.p.maybe:
            return [
                f"{self.wire} wire_{self.name};",
                f"nonsense(&wire_{self.name}, sizeof wire_{self.name});",
                f"args.{self.name} = below(2) ? &wire_{self.name} : NULL;",
            ]
        return [f"nonsense(&args.{self.name}, sizeof args.{self.name});"]

    def core_fills(self):
        if self.p.maybe:
            place = f"args.{self.name} = &wire_{self.name}"
            return [f"code = {self.name} ? to_wire_{self.target}(NULL, {self.name}, {place}) : 0;"]
        return [f"code = to_wire_{self.target}(NULL, {self.name}, &args.{self.name});"]

    def front_checks(self):
        return [] if self.p.maybe else [f"error = {self.name} ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;"]


class OutStruct(Parameter):
    out = True

    def nonsense(self):
        return []

    def __init__(self, p, call, target, wire):
        super().__init__(p, call)
        self.target, self.wire = target, wire

    def results(self):
        return [f"{self.wire} {self.name}"]

    def server_locals(self):
        return [f"{self.target} {self.name};"]

    def server_checks(self):
        return [f"memset(&{self.name}, 0, sizeof {self.name});"]

    def server_gives(self):
        return f"&{self.name}"

    def server_stores(self):
        return [f"r = (CUresult)to_wire_{self.target}(session, &{self.name}, &result.{self.name});"]

    def core_type(self):
        return f"struct {self.target} *"

    def core_takes(self):
        return [f"code = from_wire_{self.target}(NULL, &result.{self.name}, {self.name});"]

    def front_checks(self):
        return [f"error = {self.name} ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;"]
