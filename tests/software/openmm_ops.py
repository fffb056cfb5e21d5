"""OpenMM: molecules on its CUDA platform, against its reference platform."""

from ops import close, need, op, run

openmm, numpy = need("openmm", "numpy")
from openmm import unit  # noqa: E402

SIDE = 6
r = numpy.random.default_rng(1)


def lattice(spacing=0.34):
    grid = numpy.stack(numpy.meshgrid(*[numpy.arange(SIDE)] * 3), -1).reshape(-1, 3) * spacing
    return grid + r.normal(0, 0.01, grid.shape)


def argon(method=openmm.NonbondedForce.CutoffPeriodic, charge=0.0):
    system = openmm.System()
    force = openmm.NonbondedForce()
    force.setNonbondedMethod(method)
    force.setCutoffDistance(0.9)
    for i in range(SIDE**3):
        system.addParticle(39.9)
        force.addParticle(charge * (-1) ** i, 0.34, 0.99)
    box = SIDE * 0.34
    system.setDefaultPeriodicBoxVectors((box, 0, 0), (0, box, 0), (0, 0, box))
    system.addForce(force)
    return system


def chain():
    system = openmm.System()
    bonds, angles, torsions = openmm.HarmonicBondForce(), openmm.HarmonicAngleForce(), openmm.PeriodicTorsionForce()
    for i in range(50):
        system.addParticle(12.0)
        if i > 0:
            bonds.addBond(i - 1, i, 0.15, 1e5)
        if i > 1:
            angles.addAngle(i - 2, i - 1, i, 1.9, 300)
        if i > 2:
            torsions.addTorsion(i - 3, i - 2, i - 1, i, 3, 0.0, 5.0)
    for force in (bonds, angles, torsions):
        system.addForce(force)
    return system


CHAIN = numpy.cumsum(numpy.tile([[0.12, 0.09, 0.02], [0.12, -0.09, 0.01]], (25, 1)), 0)
CHAIN += numpy.random.default_rng(2).normal(0, 0.005, CHAIN.shape)


def context(system, places, platform, integrator=None, **properties):
    made = openmm.Context(
        system,
        integrator or openmm.VerletIntegrator(0.002),
        openmm.Platform.getPlatformByName(platform),
        {**properties} if platform == "CUDA" else {},
    )
    made.setPositions(places)
    return made


def forces(state):
    return state.getForces(asNumpy=True).value_in_unit(unit.kilojoule_per_mole / unit.nanometer)


def energy(state):
    return state.getPotentialEnergy().value_in_unit(unit.kilojoule_per_mole)


def compare(system, places, tolerance=2e-3, **properties):
    got, want = (
        context(system, places, platform, **properties).getState(getEnergy=True, getForces=True)
        for platform in ("CUDA", "Reference")
    )
    scale = max(1.0, abs(forces(want)).max())
    close(forces(got) / scale, forces(want) / scale, tolerance)
    close(energy(got), energy(want), tolerance * max(1, abs(energy(want))))


@op
def argon_forces():
    compare(argon(), lattice())


@op
def argon_mixed_precision():
    compare(argon(), lattice(), 1e-3, Precision="mixed")


@op
def argon_double_precision():
    compare(argon(), lattice(), 1e-5, Precision="double")


@op
def charges_with_reaction_field():
    compare(argon(charge=0.5), lattice())


@op
def charges_with_particle_mesh():
    compare(argon(openmm.NonbondedForce.PME, 0.5), lattice())


@op
def bonds_angles_torsions():
    compare(chain(), CHAIN)


@op
def custom_bond():
    system = openmm.System()
    force = openmm.CustomBondForce("k*(r-r0)^4")
    force.addPerBondParameter("k")
    force.addPerBondParameter("r0")
    for i in range(50):
        system.addParticle(12.0)
        if i:
            force.addBond(i - 1, i, [1e4, 0.1])
    system.addForce(force)
    compare(system, CHAIN)


@op
def custom_nonbonded():
    system = openmm.System()
    force = openmm.CustomNonbondedForce("a*exp(-3*r)/r; a=a1*a2")
    force.addPerParticleParameter("a")
    for i in range(50):
        system.addParticle(12.0)
        force.addParticle([1 + i % 3])
    system.addForce(force)
    compare(system, CHAIN)


@op
def generalised_born():
    system = openmm.System()
    force = openmm.GBSAOBCForce()
    for i in range(50):
        system.addParticle(12.0)
        force.addParticle((-1) ** i * 0.3, 0.15, 0.8)
    system.addForce(force)
    compare(system, CHAIN)


def total(c):
    state = c.getState(getEnergy=True)
    return (state.getPotentialEnergy() + state.getKineticEnergy()).value_in_unit(unit.kilojoule_per_mole)


@op
def energy_is_kept():
    c = context(argon(), lattice(), "CUDA", Precision="mixed")
    c.setVelocitiesToTemperature(80, 1)
    before = total(c)
    c.getIntegrator().step(200)
    assert abs(total(c) - before) < 0.02 * abs(before) + 5, (before, total(c))


@op
def same_path_as_reference():
    paths = []
    for platform in ("CUDA", "Reference"):
        c = context(chain(), CHAIN, platform, openmm.VerletIntegrator(0.0005), Precision="double")
        c.getIntegrator().step(50)
        paths.append(c.getState(getPositions=True).getPositions(asNumpy=True).value_in_unit(unit.nanometer))
    close(paths[0], paths[1], 1e-6)


@op
def langevin():
    c = context(argon(), lattice(), "CUDA", openmm.LangevinMiddleIntegrator(100, 10, 0.002))
    c.getIntegrator().step(300)
    kinetic = c.getState(getEnergy=True).getKineticEnergy().value_in_unit(unit.kilojoule_per_mole)
    temperature = kinetic / (1.5 * SIDE**3 * 0.00831446)
    assert 60 < temperature < 140, temperature


@op
def constraints():
    system = chain()
    for i in range(0, 50, 2):
        system.addConstraint(i, i + 1, 0.15)
    c = context(system, CHAIN, "CUDA", openmm.LangevinMiddleIntegrator(100, 1, 0.001))
    c.applyConstraints(1e-6)
    c.getIntegrator().step(50)
    p = c.getState(getPositions=True).getPositions(asNumpy=True).value_in_unit(unit.nanometer)
    close(numpy.linalg.norm(p[0::2] - p[1::2], axis=1), 0.15, 1e-4)


@op
def minimisation():
    c = context(chain(), CHAIN, "CUDA")
    before = energy(c.getState(getEnergy=True))
    openmm.LocalEnergyMinimizer.minimize(c, 10, 100)
    assert energy(c.getState(getEnergy=True)) < before


@op
def barostat():
    system = argon()
    system.addForce(openmm.MonteCarloBarostat(1, 100, 5))
    c = context(system, lattice(), "CUDA", openmm.LangevinMiddleIntegrator(100, 10, 0.002))
    c.getIntegrator().step(50)
    assert numpy.isfinite(energy(c.getState(getEnergy=True)))


run()
