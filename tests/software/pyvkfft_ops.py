"""pyvkfft: Fourier transforms that VkFFT compiles with NVRTC, against NumPy and SciPy."""

from ops import close, need, op, run

cupy, numpy, fft = need("cupy", "numpy", "pyvkfft.fft")

r = numpy.random.default_rng(1)


def complex_transform(*shape, kind=numpy.complex64, axes=None, tolerance=1e-3):
    x = (r.random(shape) + 1j * r.random(shape)).astype(kind)
    gpu = cupy.asarray(x)
    want = numpy.fft.fftn(x, axes=axes)
    got = fft.fftn(gpu, axes=axes)
    close(got.get(), want, tolerance * abs(want).max() / 10)
    close(fft.ifftn(got, axes=axes).get(), x, tolerance)


@op
def one_dimension():
    complex_transform(256)


@op
def double():
    complex_transform(256, kind=numpy.complex128, tolerance=1e-10)


@op
def two_dimensions():
    complex_transform(32, 48)


@op
def three_dimensions():
    complex_transform(8, 12, 16)


@op
def prime_length():
    complex_transform(127)


@op
def large_prime_length():
    complex_transform(1009)


@op
def radix_seven_to_thirteen():
    complex_transform(7 * 11 * 13)


@op
def one_axis():
    complex_transform(16, 64, axes=(1,))


@op
def several_uploads():
    complex_transform(65536)


@op
def batch():
    complex_transform(10, 100, axes=(-1,))


@op
def real():
    x = r.random((16, 64)).astype(numpy.float32)
    got = fft.rfftn(cupy.asarray(x))
    close(got.get(), numpy.fft.rfftn(x), 1e-3)
    close(fft.irfftn(got).get(), x, 1e-4)


@op
def real_double():
    x = r.random(1000)
    close(fft.rfftn(cupy.asarray(x)).get(), numpy.fft.rfftn(x), 1e-9)


@op
def cosine():
    x = r.random((8, 32)).astype(numpy.float32)
    got = fft.dctn(cupy.asarray(x))
    close(fft.idctn(got).get(), x, 1e-3)


@op
def in_place():
    x = (r.random(512) + 1j * r.random(512)).astype(numpy.complex64)
    gpu = cupy.asarray(x)
    fft.fftn(gpu, gpu)
    close(gpu.get(), numpy.fft.fftn(x), 1e-2)


run()
