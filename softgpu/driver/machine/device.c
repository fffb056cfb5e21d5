/* device.c: the devices, as FLYT_SOFTGPU_* describes them; all alike. The machines that their grids run on. */
#include "softgpu/driver/machine/machine.h"

#include <stdlib.h>

static struct sgd_device devices[SGD_MAX_DEVICES];
struct sgd_machine *sgd_machines;

/* What NVIDIA's programming guide, table "Technical Specifications per Compute Capability", says of each family. */
struct family { unsigned cc, threads_per_sm, blocks_per_sm; size_t shared_per_sm, shared_optin, reserved; };
static const struct family families[] = {               /* the last whose cc is not above */
    { 30, 2048, 16,  48 << 10,  48 << 10, 0 },
    { 50, 2048, 32,  64 << 10,  48 << 10, 0 },
    { 52, 2048, 32,  96 << 10,  48 << 10, 0 },
    { 70, 2048, 32,  96 << 10,  96 << 10, 0 },
    { 75, 1024, 16,  64 << 10,  64 << 10, 0 },
    { 80, 2048, 32, 164 << 10, 163 << 10, 1 << 10 },
    { 86, 1536, 16, 100 << 10,  99 << 10, 1 << 10 },
    { 87, 1536, 16, 164 << 10, 163 << 10, 1 << 10 },
    { 89, 1536, 24, 100 << 10,  99 << 10, 1 << 10 },
    { 90, 2048, 32, 228 << 10, 227 << 10, 1 << 10 },
    { 120, 1536, 24, 100 << 10, 99 << 10, 1 << 10 },
    { 130, 2048, 32, 228 << 10, 227 << 10, 1 << 10 },   /* none yet: as 9.0 and 10.0, which is what NCCL expects */
};

static const struct family *family_of(unsigned cc)
{
    const struct family *f = families;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (families[i].cc <= cc)
            f = &families[i];
    return f;
}

unsigned sgd_family_threads(unsigned cc) { return family_of(cc)->threads_per_sm; }

static void describe(struct sg_limits *l)
{
    const struct family *f = family_of(sgd_config.cc_major * 10 + sgd_config.cc_minor);
    *l = (struct sg_limits){
        .sm_count = sgd_config.sm_count,
        .cc_major = sgd_config.cc_major,
        .cc_minor = sgd_config.cc_minor,
        .warp_size = 32,
        .max_threads_per_block = 1024,
        .max_block = { 1024, 1024, 64 },
        .max_grid = { 2147483647, 65535, 65535 },
        .max_threads_per_sm = f->threads_per_sm,
        .max_blocks_per_sm = f->blocks_per_sm,
        .regs_per_sm = 65536,
        .regs_per_block = 65536,
        .shared_per_sm = f->shared_per_sm,
        .shared_per_block = 48 << 10,
        .shared_per_block_optin = f->shared_optin,
        .shared_reserved = f->reserved,
        .clock_khz = 1000000,
        .local_memory = sgd_config.memory,
    };
}

CUresult sgd_devices_start(void);
CUresult sgd_devices_start(void)
{
    for (unsigned i = 0; i < sgd_config.devices; i++) {
        struct sgd_device *d = &devices[i];
        d->ordinal = (int)i;
        d->total = sgd_config.memory;
        describe(&d->limits);
        d->pool_fd = -1;
    }
    return CUDA_SUCCESS;
}

void sgd_devices_describe(void)
{
    for (unsigned i = 0; i < sgd_config.devices; i++)
        describe(&devices[i].limits);
    for (struct sgd_machine *m = sgd_machines; m; m = m->next) {
        unsigned sm_count = m->limits.sm_count;
        m->limits = m->device->limits;
        m->limits.sm_count = sm_count;
        sg_engine_describe(m->engine, &m->limits);
    }
}

struct sgd_device *sgd_device(int ordinal)
{
    return ordinal >= 0 && (unsigned)ordinal < sgd_config.devices ? &devices[ordinal] : NULL;
}

CUresult sgd_machine_new(struct sgd_device *d, unsigned sm_count, struct sgd_machine **out)
{
    struct sgd_machine *m = calloc(1, sizeof *m);
    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->device = d;
    m->limits = d->limits;
    m->limits.sm_count = sm_count;
    CUresult r =
        (CUresult)sg_engine_create(&m->limits, (unsigned)d->ordinal, sgd_config.threads, sgd_config.chaos, &m->engine);
    if (r) {
        free(m);
        return r;
    }
    if (sm_count != d->limits.sm_count)
        sg_engine_is_part(m->engine);
    m->next = sgd_machines;
    sgd_machines = m;
    *out = m;
    return CUDA_SUCCESS;
}

/* Nothing runs on it any more. */
void sgd_turns_note(void)
{
    for (const struct sgd_machine *m = sgd_machines; m; m = m->next)
        sg_engine_turns_note(m->engine);
}

bool sgd_turns_passed(void)
{
    bool passed = true;
    for (const struct sgd_machine *m = sgd_machines; m; m = m->next)
        passed = passed && sg_engine_turns_passed(m->engine);
    return passed;
}

void sgd_machine_destroy(struct sgd_machine *m)
{
    struct sgd_machine **at = &sgd_machines;
    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    sgd_unlock();
    sg_engine_destroy(m->engine);
    sgd_lock();
    free(m);
}

/* For servers whose share of the device changes while programs run. */
static const _Atomic uint64_t *limits_memory;
__attribute__((visibility("default"))) void softgpu_limits(const _Atomic uint64_t *memory, const _Atomic uint32_t *sms);
void softgpu_limits(const _Atomic uint64_t *memory, const _Atomic uint32_t *sms)
{
    sgd_lock();
    limits_memory = memory;
    sgd_unlock();
    atomic_store(&sg_active_sms, sms);
}

size_t sgd_device_total(const struct sgd_device *d)
{
    size_t now = limits_memory ? atomic_load_explicit(limits_memory, memory_order_relaxed) : 0;
    return now ? now : d->total;
}

/* Less may be there than is used, for the moment in which memory that nobody may have is given back. */
size_t sgd_device_free(const struct sgd_device *d)
{
    size_t total = sgd_device_total(d);
    return total > d->used ? total - d->used : 0;
}

bool sgd_device_take(struct sgd_device *d, size_t size)
{
    if (size > sgd_device_free(d))
        return false;
    if (sgd_config.chaos_oom && sgd_random(64) == 63)
        return false;
    d->used += size;
    return true;
}

void sgd_device_give(struct sgd_device *d, size_t size)
{
    d->used -= size <= d->used ? size : d->used;
}
