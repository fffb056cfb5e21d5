"""gpu4pyscf: quantum chemistry, against PySCF on the CPU."""

from ops import close, need, op, run

gpu4pyscf, pyscf = need("gpu4pyscf", "pyscf")
from gpu4pyscf import dft as gpu_dft  # noqa: E402
from gpu4pyscf import scf as gpu_scf  # noqa: E402
from pyscf import dft, gto, scf  # noqa: E402

WATER = "O 0 0 0.117; H 0 0.757 -0.47; H 0 -0.757 -0.47"


def molecule(basis="6-31g", atoms=WATER, **more):
    return gto.M(atom=atoms, basis=basis, verbose=0, **more)


def number(x):
    return x.get() if hasattr(x, "get") else x


@op
def energy():
    close(gpu_scf.RHF(molecule()).kernel(), scf.RHF(molecule()).kernel(), 1e-7)


@op
def energy_polarised():
    close(gpu_scf.RHF(molecule("6-31g*")).kernel(), scf.RHF(molecule("6-31g*")).kernel(), 1e-7)


@op
def energy_unrestricted():
    m = molecule("6-31g", "O 0 0 0; H 0 0 0.97", spin=1)
    close(gpu_scf.UHF(m).kernel(), scf.UHF(m).kernel(), 1e-6)


@op
def gradient():
    m = molecule("6-31g*")
    a, b = gpu_scf.RHF(m), scf.RHF(m)
    a.kernel(), b.kernel()
    close(number(a.nuc_grad_method().kernel()), b.nuc_grad_method().kernel(), 1e-5)


@op
def density_fitting():
    m = molecule()
    close(gpu_scf.RHF(m).density_fit().kernel(), scf.RHF(m).density_fit().kernel(), 1e-6)


@op
def density_functional():
    m = molecule()
    a, b = gpu_dft.RKS(m, xc="pbe"), dft.RKS(m, xc="pbe")
    a.grids.level = b.grids.level = 1
    close(a.kernel(), b.kernel(), 1e-5)


@op
def hybrid_functional():
    m = molecule()
    a, b = gpu_dft.RKS(m, xc="b3lyp"), dft.RKS(m, xc="b3lyp")
    a.grids.level = b.grids.level = 1
    close(a.kernel(), b.kernel(), 1e-5)


@op
def functional_gradient():
    m = molecule()
    a, b = gpu_dft.RKS(m, xc="pbe"), dft.RKS(m, xc="pbe")
    a.grids.level = b.grids.level = 1
    a.kernel(), b.kernel()
    close(number(a.nuc_grad_method().kernel()), b.nuc_grad_method().kernel(), 1e-4)


@op
def dipole():
    m = molecule()
    a, b = gpu_scf.RHF(m), scf.RHF(m)
    a.kernel(), b.kernel()
    close(number(a.dip_moment(unit="AU", verbose=0)), b.dip_moment(unit="AU", verbose=0), 1e-4)


run()
