"""cuStateVec: operations on state vectors, against NumPy."""

from ops import close, need, op, run

cupy, numpy = need("cupy", "numpy")
cs = need("cuquantum.bindings.custatevec")

BITS = 6
r = numpy.random.default_rng(1)
from cuquantum import ComputeType, cudaDataType  # noqa: E402

HANDLE = cs.create()
KINDS = {
    numpy.complex64: (cudaDataType.CUDA_C_32F, ComputeType.COMPUTE_32F, 1e-5),
    numpy.complex128: (cudaDataType.CUDA_C_64F, ComputeType.COMPUTE_64F, 1e-12),
}


def state(kind=numpy.complex128):
    v = r.normal(size=2**BITS) + 1j * r.normal(size=2**BITS)
    return (v / numpy.linalg.norm(v)).astype(kind)


def unitary(size, kind):
    return numpy.linalg.qr(r.normal(size=(size, size)) + 1j * r.normal(size=(size, size)))[0].astype(kind)


def applied(vector, matrix, targets, controls=()):
    """The matrix on the bits `targets` (the first is the lowest), where all bits of `controls` are set."""
    out = vector.copy()
    for index in range(vector.size):
        if any(not index >> c & 1 for c in controls):
            continue
        row = sum((index >> t & 1) << k for k, t in enumerate(targets))
        base = index & ~sum(1 << t for t in targets)
        out[index] = sum(
            matrix[row, column] * vector[base | sum((column >> k & 1) << t for k, t in enumerate(targets))]
            for column in range(matrix.shape[0])
        )
    return out


def apply(kind, targets, controls=(), on_device=True):
    data, compute, tolerance = KINDS[kind]
    v, m = state(kind), unitary(2 ** len(targets), kind)
    gpu = cupy.asarray(v)
    matrix = cupy.asarray(m) if on_device else numpy.ascontiguousarray(m)
    pointer = matrix.data.ptr if on_device else matrix.ctypes.data
    layout = cs.MatrixLayout.ROW
    size = cs.apply_matrix_get_workspace_size(
        HANDLE, data, BITS, pointer, data, layout, 0, len(targets), len(controls), compute
    )
    room = cupy.empty(max(size, 1), numpy.uint8)
    cs.apply_matrix(
        HANDLE, gpu.data.ptr, data, BITS, pointer, data, layout, 0, targets, len(targets), controls,
        [1] * len(controls), len(controls), compute, room.data.ptr, size,
    )  # fmt: skip
    close(gpu.get(), applied(v, m, targets, controls), tolerance)


@op
def one_bit():
    apply(numpy.complex128, [2])


@op
def one_bit_single():
    apply(numpy.complex64, [0])


@op
def two_bits():
    apply(numpy.complex128, [1, 4])


@op
def three_bits_single():
    apply(numpy.complex64, [5, 0, 3])


@op
def controlled():
    apply(numpy.complex128, [2], [0, 5])


@op
def matrix_on_the_host():
    apply(numpy.complex128, [3, 1], [4], on_device=False)


@op
def squares():
    v = state()
    zero, one = cs.abs2sum_on_z_basis(HANDLE, cupy.asarray(v).data.ptr, KINDS[numpy.complex128][0], BITS, 1, 1, [0], 1)
    chance = abs(v) ** 2
    parity = numpy.arange(v.size) & 1
    close([zero, one], [chance[parity == 0].sum(), chance[parity == 1].sum()], 1e-10)


@op
def squares_by_bits():
    v = state()
    gpu, out = cupy.asarray(v), cupy.zeros(8)
    cs.abs2sum_array(HANDLE, gpu.data.ptr, KINDS[numpy.complex128][0], BITS, out.data.ptr, [0, 1, 2], 3, 0, 0, 0)
    close(out.get(), (abs(v) ** 2).reshape(-1, 8).sum(0), 1e-10)


@op
def collapse():
    v = state()
    gpu = cupy.asarray(v)
    norm = (abs(v[::2]) ** 2).sum()
    cs.collapse_on_z_basis(HANDLE, gpu.data.ptr, KINDS[numpy.complex128][0], BITS, 0, [0], 1, norm)
    want = v.copy()
    want[1::2] = 0
    close(gpu.get(), want / numpy.sqrt(norm), 1e-10)


@op
def measure():
    v = state()
    gpu = cupy.asarray(v)
    bit = cs.measure_on_z_basis(HANDLE, gpu.data.ptr, KINDS[numpy.complex128][0], BITS, [0], 1, 0.3, cs.Collapse(1))
    assert bit == int(0.3 >= (abs(v[::2]) ** 2).sum())
    close(numpy.linalg.norm(gpu.get()), 1, 1e-10)


@op
def rotation():
    v = state()
    gpu = cupy.asarray(v)
    cs.apply_pauli_rotation(
        HANDLE, gpu.data.ptr, KINDS[numpy.complex128][0], BITS, 0.7, [cs.Pauli.X], [2], 1, 0, 0, 0
    )
    m = numpy.array([[numpy.cos(0.7), 1j * numpy.sin(0.7)], [1j * numpy.sin(0.7), numpy.cos(0.7)]])
    close(gpu.get(), applied(v, m, [2]), 1e-10)


@op
def sampling():
    v = numpy.zeros(2**BITS, numpy.complex128)
    v[[5, 40]] = numpy.sqrt([0.25, 0.75])
    gpu = cupy.asarray(v)
    sampler, size = cs.sampler_create(HANDLE, gpu.data.ptr, KINDS[numpy.complex128][0], BITS, 1000)
    room = cupy.empty(size, numpy.uint8)
    cs.sampler_preprocess(HANDLE, sampler, room.data.ptr, size)
    bits = numpy.empty(1000, numpy.int64)
    chances = r.random(1000)
    cs.sampler_sample(
        HANDLE, sampler, bits.ctypes.data, list(range(BITS)), BITS, chances.ctypes.data, 1000, cs.SamplerOutput(0)
    )
    cs.sampler_destroy(sampler)
    assert set(bits) == {5, 40} and 650 < (bits == 40).sum() < 850


@op
def expectation():
    v, m = state(), unitary(2, numpy.complex128)
    m = m + m.conj().T
    gpu, matrix, out = cupy.asarray(v), cupy.asarray(m), numpy.zeros(1, numpy.complex128)
    data, compute, _ = KINDS[numpy.complex128]
    size = cs.compute_expectation_get_workspace_size(HANDLE, data, BITS, matrix.data.ptr, data, 1, 1, compute)
    room = cupy.empty(max(size, 1), numpy.uint8)
    cs.compute_expectation(
        HANDLE, gpu.data.ptr, data, BITS, out.ctypes.data, data, matrix.data.ptr, data, cs.MatrixLayout.ROW, [3], 1,
        compute, room.data.ptr, size,
    )  # fmt: skip
    close(out[0], numpy.vdot(v, applied(v, m, [3])), 1e-10)


@op
def permutation():
    v = state()
    gpu, order = cupy.asarray(v), cupy.asarray([2, 0, 3, 1])
    data = KINDS[numpy.complex128][0]
    arguments = (HANDLE, data, BITS, order.data.ptr, 0, data, [0, 1], 2, 0)
    size = cs.apply_generalized_permutation_matrix_get_workspace_size(*arguments)
    room = cupy.empty(max(size, 1), numpy.uint8)
    cs.apply_generalized_permutation_matrix(
        HANDLE, gpu.data.ptr, data, BITS, order.data.ptr, 0, data, 0, [0, 1], 2, 0, 0, 0, room.data.ptr, size
    )
    matrix = numpy.zeros((4, 4))
    matrix[range(4), [2, 0, 3, 1]] = 1
    got = gpu.get()
    assert any(numpy.allclose(got, applied(v, m, [0, 1])) for m in (matrix, matrix.T))


run()
