/*
 * cases.c: runs the kernels of a file of cases on a CUDA driver, and writes down all that they leave.
 *
 *   cases [--driver LIBRARY] [--jobs N] [--limit SECONDS] [--only PART] CASES INPUTS RESULTS      default: libcuda.so.1
 *
 * After --limit seconds (100) what was not run yet is left out. cases.py makes CASES and INPUTS; compare.py compares
 * the RESULTS of two drivers. CASES begins with the head of a PTX module, up to a line "%%". Then come cases:
 *
 *   #case NAME GRID BLOCK CLUSTER SHARED OUT FLAGS PARAMETERS
 *   the PTX of a module without its head; the entry of case N is kN
 *
 * parted by tabs. GRID, BLOCK, CLUSTER: x,y,z. SHARED: bytes of dynamic shared memory. OUT: bytes that are read back.
 * FLAGS: letters; a: a module of its own; s: ends badly on purpose, a module and a process of its own.
 * PARAMETERS: 64 bits each; iOFFSET: an address in the inputs; oOFFSET: one in what is read back, which is 0xa5 before;
 * vVALUE; t…: a texture object (texture_of). What is no parameter: nNAME: the kernel's name; wOFFSET:SIZE: so many
 * bytes of the inputs lie at WINDOW_BASE when the kernel begins, and are read back behind the rest; gNAME:OFFSET:SIZE:
 * the same of a variable of the module.
 *
 * Kernels of several cases are one module; where the driver refuses it, it is halved until the refused case is alone.
 * Cases run in processes that the parent watches: an error ends the process, and the next one goes on behind the case.
 * A case that takes too long is killed. RESULTS: a line for each case (its name, how far it came, the codes of launch
 * and synchronisation, the bytes, the first line of the log), an empty line, the bytes of all cases.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 128, PARAMETERS = 40, LOG = 200, MOST_JOBS = 64 };
enum { LOAD_SECONDS = 120, CASE_SECONDS = 10 };

/* How far a case came. */
enum stage { WAITING, REFUSED, STARTED, DONE, STUCK, CRASHED, UNABLE };
static const char *const stages[] = { "waiting", "refused", "started", "done", "stuck", "crashed", "unable" };

struct testcase {
    char *name, *parameters, *ptx;
    int number;                           /* in the file: its kernel is k and this */
    unsigned grid[3], block[3], cluster[3], shared;
    size_t out, at; /* bytes of output, and where they lie in the shared mapping */
    bool alone, bad;
};

/* What a case came to; shared by the processes. */
struct outcome { _Atomic int stage; int launch, sync, load; char log[LOG]; };

/* What a process is at; the parent reads it. */
struct worker {
    pid_t pid;
    _Atomic int batch, next;              /* the batch, and the next case of it */
    _Atomic long since;                   /* when it began what it does, seconds; 0: it does nothing */
    _Atomic int limit;                    /* seconds */
};

static struct testcase *cases;
static int case_count, *batches, batch_count; /* the first case of each batch, and one more */
static char *head;
static unsigned char *inputs;
static size_t inputs_size;
static struct outcome *outcomes;
static unsigned char *outputs;
static struct worker *workers;
static _Atomic int *next_batch;

/* ---- the driver ---- */

static void *library;
static const char *driver_name = "libcuda.so.1";

static void *entry(const char *name)
{
    void *address = dlsym(library, name);
    if (!address)
        fprintf(stderr, "cases: the driver has no %s\n", name);
    return address;
}

#define CALL(name, types, ...) (((CUresult(*) types)entry(#name))(__VA_ARGS__))

static CUdevice device;
static CUdeviceptr device_inputs, device_out, window;
static size_t device_out_size;

static int start_driver(void)
{
    CUcontext context;
    int r;
    library = dlopen(driver_name, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "cases: %s\n", dlerror());
        return -1;
    }
    if ((r = CALL(cuInit, (unsigned), 0)) || (r = CALL(cuDeviceGet, (CUdevice *, int), &device, 0)) ||
        (r = CALL(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice), &context, device)) ||
        (r = CALL(cuCtxSetCurrent, (CUcontext), context)) ||
        (r = CALL(cuMemAlloc_v2, (CUdeviceptr *, size_t), &device_inputs, inputs_size)) ||
        (r = CALL(cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t), device_inputs, inputs, inputs_size)) ||
        (r = CALL(cuMemAlloc_v2, (CUdeviceptr *, size_t), &device_out, device_out_size)))
        fprintf(stderr, "cases: the driver does not start: %d\n", r);
    return r;
}

/* ---- memory at a fixed place ---- */

static const CUdeviceptr WINDOW_BASE = 0x300000000000; /* as in tests/exec/record.h */
enum { WINDOW_SIZE = 4 << 20 };

static CUresult map_window(void)
{
    const CUmemAllocationProp p = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                    .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device } };
    const CUmemAccessDesc access = { .location = p.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
    CUmemGenericAllocationHandle handle;
    CUresult r = CALL(cuMemAddressReserve, (CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long), &window,
                      WINDOW_SIZE, 0, WINDOW_BASE, 0);
    if (!r && window != WINDOW_BASE)
        return CUDA_ERROR_INVALID_ADDRESS_SPACE;
    if (!r)
        r = CALL(cuMemCreate,
                 (CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long), &handle,
                 WINDOW_SIZE, &p, 0);
    if (!r)
        r = CALL(cuMemMap, (CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long), window,
                 WINDOW_SIZE, 0, handle, 0);
    if (!r)
        r = CALL(cuMemSetAccess, (CUdeviceptr, size_t, const CUmemAccessDesc *, size_t), window, WINDOW_SIZE,
                 &access, 1);
    return r;
}

/* The address and the size of what p, a parameter that begins with w or g, names; `module` has it. */
static CUresult place_of(const char *p, CUmodule module, CUdeviceptr *place, size_t *offset, size_t *size)
{
    char name[128];
    size_t bytes;
    if (*p == 'w') {
        if (sscanf(p, "w%zu:%zu", offset, size) != 2)
            return CUDA_ERROR_INVALID_VALUE;
        CUresult r = window ? CUDA_SUCCESS : map_window();
        *place = window;
        return r;
    }
    if (sscanf(p, "g%127[^:]:%zu:%zu", name, offset, size) != 3)
        return CUDA_ERROR_INVALID_VALUE;
    return CALL(cuModuleGetGlobal_v2, (CUdeviceptr *, size_t *, CUmodule, const char *), place, &bytes, module, name);
}

/* Before the kernel: from the inputs. After it: to `back`. */
static CUresult move_places(const struct testcase *c, CUmodule module, unsigned char *back)
{
    CUresult r = CUDA_SUCCESS;
    char *list = strdup(c->parameters);
    size_t at = 0;
    for (char *save, *p = strtok_r(list, ",", &save); p && !r; p = strtok_r(NULL, ",", &save)) {
        CUdeviceptr place;
        size_t offset, size;
        if ((*p != 'w' && *p != 'g') || (r = place_of(p, module, &place, &offset, &size)) || !size)
            continue;
        r = back ? CALL(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t), back + at, place, size)
                 : CALL(cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t), place, inputs + offset, size);
        at += size;
    }
    free(list);
    return r;
}

/* ---- textures ---- */

/*
 * t KIND FORMAT CHANNELS W H D MIPS FILTER MIPFILTER ADDRESS FLAGS OFFSET, parted by colons: an array of that shape
 * with texels from the inputs at OFFSET, one level behind the other, and a texture object of it. KIND: 1, 2 or 3
 * dimensions, a1, a2 (layers in D), c (cube), ac, s1, s2, s3 (surfaces). FORMAT: the CUarray_format.
 */
static CUresult texture_of(const char *text, uint64_t *object)
{
    char kind[4];
    unsigned format, channels, mips, filter, mip_filter, address, flags;
    size_t w, h, d, offset;
    if (sscanf(text, "t%3[a-z0-9]:%u:%u:%zu:%zu:%zu:%u:%u:%u:%u:%u:%zu", kind, &format, &channels, &w, &h, &d, &mips,
               &filter, &mip_filter, &address, &flags, &offset) != 12)
        return CUDA_ERROR_INVALID_VALUE;
    const bool surface = kind[0] == 's', layered = kind[0] == 'a', cube = strchr(kind, 'c') != NULL;
    const size_t texel = channels * (format == CU_AD_FORMAT_UNSIGNED_INT8 || format == CU_AD_FORMAT_SIGNED_INT8 ? 1
                                     : format == CU_AD_FORMAT_UNSIGNED_INT16 || format == CU_AD_FORMAT_SIGNED_INT16 ||
                                             format == CU_AD_FORMAT_HALF
                                         ? 2
                                         : 4);
    CUDA_ARRAY3D_DESCRIPTOR array = { .Width = w, .Height = h, .Depth = d, .Format = (CUarray_format)format,
                                      .NumChannels = channels,
                                      .Flags = (layered ? CUDA_ARRAY3D_LAYERED : 0) |
                                               (cube ? CUDA_ARRAY3D_CUBEMAP : 0) |
                                               (surface ? CUDA_ARRAY3D_SURFACE_LDST : 0) };
    CUmipmappedArray mipmap = NULL;
    CUarray level = NULL;
    CUresult r = mips > 1 ? CALL(cuMipmappedArrayCreate,
                                 (CUmipmappedArray *, const CUDA_ARRAY3D_DESCRIPTOR *, unsigned), &mipmap, &array, mips)
                          : CALL(cuArray3DCreate_v2, (CUarray *, const CUDA_ARRAY3D_DESCRIPTOR *), &level, &array);
    for (unsigned m = 0; m < mips && !r; m++) {
        if (mipmap)
            r = CALL(cuMipmappedArrayGetLevel, (CUarray *, CUmipmappedArray, unsigned), &level, mipmap, m);
        const size_t lw = w >> m ? w >> m : 1, lh = h == 0 ? 1 : h >> m ? h >> m : 1,
                     ld = d == 0 ? 1 : layered || cube ? d : d >> m ? d >> m : 1;
        CUDA_MEMCPY3D copy = { .srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = inputs + offset, .srcPitch = lw * texel,
                               .srcHeight = lh, .dstMemoryType = CU_MEMORYTYPE_ARRAY, .dstArray = level,
                               .WidthInBytes = lw * texel, .Height = lh, .Depth = ld };
        if (!r)
            r = CALL(cuMemcpy3D_v2, (const CUDA_MEMCPY3D *), &copy);
        offset += lw * lh * ld * texel;
    }
    CUDA_RESOURCE_DESC resource = { .resType = mipmap ? CU_RESOURCE_TYPE_MIPMAPPED_ARRAY : CU_RESOURCE_TYPE_ARRAY };
    if (mipmap)
        resource.res.mipmap.hMipmappedArray = mipmap;
    else
        resource.res.array.hArray = level;
    const CUaddress_mode mode = (CUaddress_mode)address;
    CUDA_TEXTURE_DESC texture = { .addressMode = { mode, mode, mode }, .filterMode = (CUfilter_mode)filter,
                                  .flags = flags, .mipmapFilterMode = (CUfilter_mode)mip_filter,
                                  .maxMipmapLevelClamp = (float)(mips - 1),
                                  .borderColor = { 0.25f, 0.5f, 0.75f, 1.0f } };
    if (!r && surface)
        r = CALL(cuSurfObjectCreate, (CUsurfObject *, const CUDA_RESOURCE_DESC *), (CUsurfObject *)object, &resource);
    else if (!r)
        r = CALL(cuTexObjectCreate,
                 (CUtexObject *, const CUDA_RESOURCE_DESC *, const CUDA_TEXTURE_DESC *,
                  const CUDA_RESOURCE_VIEW_DESC *),
                 (CUtexObject *)object, &resource, &texture, NULL);
    return r;
}

/* ---- one process ---- */

static long seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1;
}

static void busy(struct worker *w, int limit)
{
    atomic_store(&w->limit, limit);
    atomic_store(&w->since, seconds());
}

static CUresult load(int first, int count, CUmodule *module, char *log)
{
    size_t size = strlen(head) + 1;
    for (int i = first; i < first + count; i++)
        size += strlen(cases[i].ptx);
    char *text = malloc(size), *to = stpcpy(text, head);
    for (int i = first; i < first + count; i++)
        to = stpcpy(to, cases[i].ptx);
    static char errors[8192];
    errors[0] = '\0';
    CUjit_option options[] = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
    void *values[] = { errors, (void *)(uintptr_t)(sizeof errors - 1) };
    CUresult r = CALL(cuModuleLoadDataEx, (CUmodule *, const void *, unsigned, CUjit_option *, void **), module, text,
                      2, options, values);
    free(text);
    errors[sizeof errors - 1] = '\0';
    const char *line = strstr(errors, "error");
    snprintf(log, LOG, "%.*s", (int)strcspn(line ? line : errors, "\n\r"), line ? line : errors);
    for (char *c = log; *c; c++)
        *c = *c == '\t' ? ' ' : *c;
    return r;
}

/* Runs a case; false: this process is of no more use. */
static bool run_case(int number, CUmodule module)
{
    struct testcase *c = &cases[number];
    struct outcome *o = &outcomes[number];
    uint64_t values[PARAMETERS];
    void *pointers[PARAMETERS];
    unsigned count = 0;
    char name[128];
    CUfunction function;
    const char *own = strstr(c->parameters, ",n");
    snprintf(name, sizeof name, "k%d", c->number);
    if (own)
        snprintf(name, sizeof name, "%.*s", (int)strcspn(own + 2, ","), own + 2);
    atomic_store(&o->stage, UNABLE);
    o->launch = CALL(cuModuleGetFunction, (CUfunction *, CUmodule, const char *), &function, module, name);
    if (o->launch) {
        snprintf(o->log, LOG, "no kernel of that name");
        return true;
    }
    char *list = strdup(c->parameters);
    for (char *save, *p = strtok_r(list, ",", &save); p && count < PARAMETERS; p = strtok_r(NULL, ",", &save)) {
        CUresult r = CUDA_SUCCESS;
        switch (*p) {
        case 'i': values[count] = device_inputs + strtoull(p + 1, NULL, 0); break;
        case 'o': values[count] = device_out + strtoull(p + 1, NULL, 0); break;
        case 't': r = texture_of(p, &values[count]); break;
        case 'n': case 'w': case 'g': continue;
        default:  values[count] = strtoull(p + 1, NULL, 0); break;
        }
        if (r) {
            o->launch = (int)r;
            snprintf(o->log, LOG, "parameter %s", p);
            free(list);
            return true;
        }
        pointers[count] = &values[count];
        count++;
    }
    free(list);
    const size_t plain = own ? 0 : c->out;            /* a case of memory at fixed places has nothing else */
    CUresult r = plain ? CALL(cuMemsetD8_v2, (CUdeviceptr, unsigned char, size_t), device_out, 0xa5, plain)
                       : move_places(c, module, NULL);
    if (!r && c->shared > (48 << 10))
        r = CALL(cuFuncSetAttribute, (CUfunction, CUfunction_attribute, int), function,
                 CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)c->shared);
    if (r) {
        o->launch = (int)r;
        return false;
    }
    atomic_store(&o->stage, STARTED);
    CUlaunchAttribute cluster = { .id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                  .value.clusterDim = { c->cluster[0], c->cluster[1], c->cluster[2] } };
    CUlaunchConfig config = { .gridDimX = c->grid[0], .gridDimY = c->grid[1], .gridDimZ = c->grid[2],
                              .blockDimX = c->block[0], .blockDimY = c->block[1], .blockDimZ = c->block[2],
                              .sharedMemBytes = c->shared, .attrs = &cluster, .numAttrs = c->cluster[0] ? 1 : 0 };
    o->launch = CALL(cuLaunchKernelEx, (const CUlaunchConfig *, CUfunction, void **, void **), &config, function,
                     pointers, NULL);
    o->sync = CALL(cuCtxSynchronize, (void));
    r = plain ? CALL(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t), outputs + c->at, device_out, plain)
              : move_places(c, module, outputs + c->at);
    atomic_store(&o->stage, DONE);
    return !o->sync && !r;
}

static unsigned cases_run;                            /* by this process */

/* Cases first to first + count - 1, none of which has been run. */
static void run_some(struct worker *w, int first, int count)
{
    CUmodule module = NULL;
    char log[LOG];
    busy(w, LOAD_SECONDS);
    CUresult r = load(first, count, &module, log);
    if (r && count > 1) {
        run_some(w, first, count / 2);
        run_some(w, first + count / 2, count - count / 2);
        return;
    }
    /* The error of a case that ended well before: this process is of no more use, and the next one looks again. */
    const bool late = r >= CUDA_ERROR_ILLEGAL_ADDRESS && r <= CUDA_ERROR_LAUNCH_FAILED;
    if (late && cases_run)
        _exit(0);
    if (r) {
        outcomes[first].load = (int)r;
        snprintf(outcomes[first].log, LOG, "%s", log);
        atomic_store(&outcomes[first].stage, REFUSED);
        atomic_store(&w->next, first + 1);
        return;
    }
    for (int i = first; i < first + count; i++) {
        busy(w, CASE_SECONDS);
        bool good = run_case(i, module);
        atomic_store(&w->next, i + 1);
        cases_run++;
        if (!good || cases[i].bad)
            _exit(0);
    }
    CALL(cuModuleUnload, (CUmodule), module);
}

static void work(struct worker *w)
{
    busy(w, LOAD_SECONDS);
    if (!freopen("/dev/null", "w", stdout))           /* kernels may print */
        _exit(9);
    if (start_driver())
        _exit(9);
    for (;;) {
        int batch = atomic_load(&w->batch);
        if (batch >= 0 && atomic_load(&w->next) < batches[batch + 1])
            run_some(w, atomic_load(&w->next), batches[batch + 1] - atomic_load(&w->next));
        batch = atomic_fetch_add(next_batch, 1);
        if (batch >= batch_count)
            break;
        atomic_store(&w->next, batches[batch]);
        atomic_store(&w->batch, batch);
    }
    atomic_store(&w->since, 0);
    _exit(1);
}

/* ---- the parent ---- */

static void spawn(struct worker *w)
{
    fflush(NULL);
    busy(w, LOAD_SECONDS);
    pid_t pid = fork(); /* *w is shared: only the parent writes this */
    if (pid == 0)
        work(w);
    w->pid = pid;
}

/* The process of w has ended, or is ended: the case that it was at did it. */
static void account(struct worker *w, enum stage how, int signal_number)
{
    int batch = atomic_load(&w->batch), at = atomic_load(&w->next);
    if (batch < 0 || at >= batches[batch + 1])
        return;
    int stage = atomic_load(&outcomes[at].stage);
    if (stage == WAITING || stage == STARTED || stage == UNABLE) {
        snprintf(outcomes[at].log, LOG, "signal %d while it was %s", signal_number,
                 stage == STARTED ? "run" : "loaded");
        atomic_store(&outcomes[at].stage, (int)how);
    }
    atomic_store(&w->next, at + 1);
}

static void watch(int jobs, long limit)
{
    const long until = seconds() + limit;
    int left = jobs, dead_starts = 0;
    for (int i = 0; i < jobs; i++)
        spawn(&workers[i]);
    while (left) {
        int status;
        pid_t ended = waitpid(-1, &status, WNOHANG);
        for (int i = 0; i < jobs; i++) {
            struct worker *w = &workers[i];
            if (ended > 0 && w->pid == ended) {
                if (WIFEXITED(status) && (WEXITSTATUS(status) == 1 || WEXITSTATUS(status) == 9)) {
                    dead_starts += WEXITSTATUS(status) == 9;
                    w->pid = 0;
                    left--;
                    continue;
                }
                if (!WIFEXITED(status))
                    account(w, CRASHED, WTERMSIG(status));
                spawn(w);
            } else if (w->pid && atomic_load(&w->since) &&
                       seconds() - atomic_load(&w->since) > atomic_load(&w->limit)) {
                kill(w->pid, SIGKILL);
                waitpid(w->pid, NULL, 0);
                fprintf(stderr, "cases: stuck: %s\n", cases[atomic_load(&w->next)].name);
                account(w, STUCK, SIGKILL);
                spawn(w);
            }
        }
        if (seconds() > until) {
            fprintf(stderr, "cases: not over after %ld s\n", limit);
            for (int i = 0; i < jobs; i++)
                if (workers[i].pid)
                    kill(workers[i].pid, SIGKILL);
            break;
        }
        if (ended <= 0)
            usleep(2000);
    }
    if (dead_starts)
        fprintf(stderr, "cases: %d of %d processes could not start\n", dead_starts, jobs);
}

/* ---- files ---- */

static char *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) {
        perror(path);
        exit(2);
    }
    *size = (size_t)ftell(file);
    rewind(file);
    char *text = malloc(*size + 1);
    if (!text || fread(text, 1, *size, file) != *size) {
        perror(path);
        exit(2);
    }
    text[*size] = '\0';
    fclose(file);
    return text;
}

static void three(const char *text, unsigned *to) { sscanf(text, "%u,%u,%u", &to[0], &to[1], &to[2]); }

static void read_cases(const char *path, const char *only)
{
    size_t size;
    char *at = read_file(path, &size), *end = strstr(at, "%%\n");
    if (!end)
        exit(2);
    *end = '\0';
    head = at;
    at = end + 3;
    size_t room = 0;
    for (int number = 0; (at = strstr(at, "#case\t")) != NULL; number++) {
        if (case_count % 1024 == 0) {
            struct testcase *more = realloc(cases, sizeof *cases * (size_t)(case_count + 1024));
            if (!more)
                exit(2);
            cases = more;
        }
        struct testcase *c = &cases[case_count++];
        if (at[-1] == '\n')
            at[-1] = '\0';                            /* ends the case before */
        char *line = at + 6, *fields[8];
        at = strchr(line, '\n');
        *at++ = '\0';
        for (int i = 0; i < 8; i++) {
            fields[i] = line;
            line += strcspn(line, "\t");
            if (*line)
                *line++ = '\0';
        }
        *c = (struct testcase){ .name = fields[0], .parameters = fields[7], .ptx = at, .number = number };
        three(fields[1], c->grid);
        three(fields[2], c->block);
        three(fields[3], c->cluster);
        c->shared = (unsigned)atoi(fields[4]);
        c->out = strtoull(fields[5], NULL, 10);
        c->bad = strchr(fields[6], 's') != NULL;
        c->alone = c->bad || strchr(fields[6], 'a') != NULL;
        c->at = room;
        room += (c->out + 15) & ~(size_t)15;
        if (c->out > device_out_size)
            device_out_size = c->out;
    }
    device_out_size += 256;
    const size_t control = sizeof *outcomes * (size_t)case_count + sizeof *workers * MOST_JOBS + 64;
    unsigned char *shared = mmap(NULL, control + room + 64, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        exit(2);
    outcomes = (struct outcome *)(void *)shared;
    workers = (struct worker *)(void *)(outcomes + case_count);
    next_batch = (_Atomic int *)(void *)(workers + MOST_JOBS);
    outputs = shared + control;
    batches = malloc(sizeof *batches * (size_t)(case_count + 2));
    int kept = 0;
    for (int i = 0; i < case_count; i++) {
        if (only && !strstr(cases[i].name, only))
            continue;
        cases[kept] = cases[i];
        if (!kept || cases[kept].alone || cases[kept - 1].alone || kept - batches[batch_count - 1] >= BATCH)
            batches[batch_count++] = kept;
        kept++;
    }
    case_count = kept;
    batches[batch_count] = kept;
}

static void write_results(const char *path)
{
    FILE *file = fopen(path, "wb");
    if (!file) {
        perror(path);
        exit(2);
    }
    unsigned counts[7] = { 0 };
    for (int i = 0; i < case_count; i++) {
        struct outcome *o = &outcomes[i];
        counts[o->stage]++;
        fprintf(file, "%s\t%s\t%d\t%d\t%d\t%zu\t%s\n", cases[i].name, stages[o->stage], o->load, o->launch, o->sync,
                o->stage == DONE ? cases[i].out : 0, o->log);
    }
    fputc('\n', file);
    for (int i = 0; i < case_count; i++)
        if (outcomes[i].stage == DONE)
            fwrite(outputs + cases[i].at, 1, cases[i].out, file);
    if (fclose(file)) {
        perror(path);
        exit(2);
    }
    printf("%d cases:", case_count);
    for (int i = 0; i < 7; i++)
        if (counts[i])
            printf(" %u %s", counts[i], stages[i]);
    printf("\n");
}

int main(int argc, char **argv)
{
    int jobs = (int)sysconf(_SC_NPROCESSORS_ONLN), at = 1;
    long limit = 100;
    const char *only = NULL;
    for (; at + 1 < argc && argv[at][0] == '-'; at += 2) {
        if (!strcmp(argv[at], "--driver"))
            driver_name = argv[at + 1];
        else if (!strcmp(argv[at], "--jobs"))
            jobs = atoi(argv[at + 1]);
        else if (!strcmp(argv[at], "--limit"))
            limit = atol(argv[at + 1]);
        else if (!strcmp(argv[at], "--only"))
            only = argv[at + 1];
        else
            break;
    }
    if (argc - at != 3 || jobs < 1) {
        fprintf(stderr,
                "usage: cases [--driver LIBRARY] [--jobs N] [--limit SECONDS] [--only PART] CASES INPUTS RESULTS\n");
        return 2;
    }
    jobs = jobs < MOST_JOBS ? jobs : MOST_JOBS;
    inputs = (unsigned char *)read_file(argv[at + 1], &inputs_size);
    read_cases(argv[at], only);
    for (int i = 0; i < jobs; i++)
        workers[i].batch = -1;
    watch(jobs, limit);
    write_results(argv[at + 2]);
    return 0;
}
