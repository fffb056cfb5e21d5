"""cuda.core: NVIDIA's objects of Python for devices, streams, memory, programs and graphs, against NumPy."""

from ops import close, need, op, run, same

core, numpy = need("cuda.core", "numpy")
from cuda.core import Device, EventOptions, LaunchConfig, Program, ProgramOptions, launch  # noqa: E402

device = Device()
device.set_current()
stream = device.create_stream()
SIZE = 5000
CODE = """
template <typename T> __global__ void axpy(T a, const T *x, T *y, size_t n)
{
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = a * x[i] + y[i];
}
"""


def kernel(name):
    options = ProgramOptions(std="c++17", arch=f"sm_{device.arch}")
    return Program(CODE, code_type="c++", options=options).compile("cubin", name_expressions=(name,)).get_kernel(name)


def array(buffer, type_):
    return numpy.from_dlpack(buffer).view(type_)


def pinned(values):
    from cuda.core import LegacyPinnedMemoryResource

    buffer = LegacyPinnedMemoryResource().allocate(values.nbytes, stream=stream)
    array(buffer, values.dtype)[:] = values
    return buffer


def axpy(type_):
    x, y = (numpy.random.default_rng(i).random(SIZE).astype(type_) for i in (1, 2))
    name = {numpy.float32: "axpy<float>", numpy.float64: "axpy<double>", numpy.int32: "axpy<int>"}[type_]
    if type_ is numpy.int32:
        x, y = numpy.arange(SIZE, dtype=type_), numpy.arange(SIZE, dtype=type_)[::-1].copy()
    here = [pinned(x), pinned(y)]
    there = [device.memory_resource.allocate(x.nbytes, stream=stream) for _ in here]
    for to, source in zip(there, here):
        to.copy_from(source, stream=stream)
    launch(stream, LaunchConfig(grid=16, block=128), kernel(name), type_(3), there[0], there[1], numpy.uint64(SIZE))
    there[1].copy_to(here[1], stream=stream)
    stream.sync()
    close(array(here[1], type_), 3 * x + y)


@op
def what_the_device_says():
    assert device.name and device.properties.warp_size == 32 and device.properties.multiprocessor_count > 0


@op
def axpy_f32():
    axpy(numpy.float32)


@op
def axpy_f64():
    axpy(numpy.float64)


@op
def axpy_i32():
    axpy(numpy.int32)


@op
def what_the_kernel_says():
    found = kernel("axpy<float>")
    assert found.attributes.max_threads_per_block >= 128 and found.attributes.num_regs > 0
    assert found.occupancy.max_active_blocks_per_multiprocessor(128, dynamic_shared_memory_size=0) > 0


@op
def events_and_time():
    options = EventOptions(timing_enabled=True)
    begin = stream.record(options=options)
    kernel("axpy<float>")
    end = stream.record(options=options)
    end.sync()
    assert end.is_done and end - begin >= 0


@op
def filled_memory():
    here = pinned(numpy.zeros(SIZE, dtype=numpy.int8))
    there = device.memory_resource.allocate(SIZE, stream=stream)
    there.fill(7, stream=stream)
    there.copy_to(here, stream=stream)
    stream.sync()
    same(array(here, numpy.int8), numpy.full(SIZE, 7))


@op
def streams_wait_for_each_other():
    other = device.create_stream()
    here = pinned(numpy.zeros(SIZE, dtype=numpy.int8))
    there = device.memory_resource.allocate(SIZE, stream=stream)
    there.fill(9, stream=stream)
    other.wait(stream)
    there.copy_to(here, stream=other)
    other.sync()
    same(array(here, numpy.int8), numpy.full(SIZE, 9))


@op
def the_linker():
    from cuda.core import Linker, LinkerOptions

    options = ProgramOptions(relocatable_device_code=True, arch=f"sm_{device.arch}")
    parts = [
        "extern __device__ int twice(int); extern \"C\" __global__ void run(int *p) { *p = twice(*p); }",
        "__device__ int twice(int x) { return 2 * x; }",
    ]
    codes = [Program(part, code_type="c++", options=options).compile("ptx") for part in parts]
    linked = Linker(*codes, options=LinkerOptions(arch=f"sm_{device.arch}")).link("cubin")
    word = pinned(numpy.array([21], dtype=numpy.int32))
    launch(stream, LaunchConfig(grid=1, block=1), linked.get_kernel("run"), word)
    stream.sync()
    same(array(word, numpy.int32), [42])


run()
