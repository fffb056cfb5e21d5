"""cuTensorNet (with cuTENSOR, through cuQuantum's Python): contractions and decompositions, against NumPy."""

from ops import close, need, op, run

cupy, numpy, tensornet = need("cupy", "numpy", "cuquantum.tensornet")
from cuquantum.tensornet import contract, contract_path, tensor  # noqa: E402

r = numpy.random.default_rng(1)


def compare(expression, *shapes, kind=numpy.float64, tolerance=1e-8):
    host = [r.random(s).astype(kind) for s in shapes]
    if numpy.issubdtype(kind, numpy.complexfloating):
        host = [h + (1j * r.random(h.shape)).astype(kind) for h in host]
    got = contract(expression, *[cupy.asarray(h) for h in host])
    close(got.get(), numpy.einsum(expression, *host, optimize=True), tolerance)


@op
def product():
    compare("ij,jk->ik", (16, 20), (20, 12))


@op
def product_single():
    compare("ij,jk->ik", (16, 20), (20, 12), kind=numpy.float32, tolerance=1e-4)


@op
def product_complex():
    compare("ij,jk->ik", (16, 20), (20, 12), kind=numpy.complex128)


@op
def chain():
    compare("ij,jk,kl,lm->im", (8, 9), (9, 10), (10, 11), (11, 7))


@op
def trace():
    compare("ij,jk,ki->", (8, 9), (9, 10), (10, 8))


@op
def batch():
    compare("bij,bjk->bik", (5, 8, 9), (5, 9, 7))


@op
def outer():
    compare("i,j->ij", (8,), (9,))


@op
def ring():
    compare("abc,cde,efa->bdf", (4, 3, 5), (5, 3, 6), (6, 3, 4))


@op
def four_dimensions():
    compare("ijkl,klmn->ijmn", (3, 4, 5, 6), (5, 6, 4, 3), kind=numpy.complex64, tolerance=1e-3)


@op
def host_arrays():
    a, b = r.random((6, 7)), r.random((7, 5))
    close(contract("ij,jk->ik", a, b), a @ b, 1e-10)


@op
def path():
    order, info = contract_path("ij,jk,kl->il", *[numpy.ones(s) for s in ((4, 50), (50, 60), (60, 3))])
    assert len(order) == 2 and info.opt_cost > 0


@op
def network_again():
    a, b = r.random((6, 7)), r.random((7, 5))
    with tensornet.Network("ij,jk->ik", cupy.asarray(a), cupy.asarray(b)) as network:
        network.contract_path()
        close(network.contract().get(), a @ b, 1e-10)
        network.reset_operands(cupy.asarray(2 * a), cupy.asarray(b))
        close(network.contract().get(), 2 * a @ b, 1e-10)


@op
def decomposition_qr():
    a = r.random((6, 5, 4))
    q, t = tensor.decompose("ijk->ijx,xk", cupy.asarray(a))
    close(numpy.einsum("ijx,xk->ijk", q.get(), t.get()), a, 1e-10)


@op
def decomposition_svd():
    a = r.random((6, 8))
    u, s, v = tensor.decompose("ij->ix,xj", cupy.asarray(a), method=tensor.SVDMethod())
    close(s.get(), numpy.linalg.svd(a)[1], 1e-10)
    close(u.get() @ numpy.diag(s.get()) @ v.get(), a, 1e-10)


run()
