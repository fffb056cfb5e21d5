/*
 * export_tables.c: what NVIDIA's own CUDA runtime and libraries ask of a driver beyond the public API: tables of
 * functions that cuGetExportTable gives out by a UUID, and a value by which the runtime knows that the driver answers
 * it.
 *
 * Everything private is in this file, so that a build can leave it out (make INTEROP=no). docs/interoperability.md
 * says why it is here, and what works without it. The meaning of tables and slots was found by observation. All of it
 * is answered in the process.
 *
 * A slot whose meaning is not known gets a function that returns 801, so that a library of the future ends with an
 * error and not with a jump to nowhere. A table that is not known is refused, as NVIDIA's driver refuses those of
 * other versions.
 *
 * Those that do more than give a constant pass the gate, as the public entries do (api_gate.h).
 */
#include "cpu/client/driver/driver.h"

#if FLYT_INTEROP

#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cpu/common/log.h"

typedef void (*slot)(void);
#define SLOT(function) ((slot)(uintptr_t)(function))

/* ---- slots that are not known, one function for each table ---- */

static int unknown_slot(const char *table)
{
    CORE_GATE("an unknown function of a private table");
    char name[64];
    snprintf(name, sizeof name, "an unknown function of the private table %s", table);
    core_unsupported(name);
    return CUDA_ERROR_NOT_SUPPORTED;
}

#define UNKNOWN(table) \
    static int unknown_##table(void) { return unknown_slot(#table); }
UNKNOWN(runtime)
UNKNOWN(current)
UNKNOWN(check)
UNKNOWN(context)
UNKNOWN(module)
UNKNOWN(heuristics)

/* ---- the runtime's helpers ---- */

/* The handle of the device's primary context, which need not exist yet. */
static int primary_of(CUcontext *out, CUdevice device)
{
    CORE_GATE("a private function of the driver (primary_of)");
    int error = driver_device(device);
    if (!error && !out)
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error)
        *out = core_context_primary(device);
    return error;
}

static int load_module(CUmodule *out, const void *image)
{
    CORE_GATE("a private function of the driver (load_module)");
    return (int)driver_waited(driver_module_load(image, out));
}

static int load_module_of(const void *image, CUmodule *out) { return load_module(out, image); }
static void forget_image(void *image) { (void)image; }
static int succeed(void) { return CUDA_SUCCESS; }

enum { RUNTIME_SLOTS = 13 };
static const slot runtime_table[RUNTIME_SLOTS] = {
    [0] = SLOT(sizeof(slot) * RUNTIME_SLOTS),
    [1] = SLOT(load_module),
    [2] = SLOT(primary_of),
    [3] = SLOT(unknown_runtime),
    [4] = SLOT(unknown_runtime),
    [5] = SLOT(unknown_runtime),
    [6] = SLOT(load_module),
    [7] = SLOT(forget_image),
    [8] = SLOT(load_module_of),
    [9] = SLOT(unknown_runtime),
    [10] = SLOT(unknown_runtime),
    [11] = SLOT(unknown_runtime),
    [12] = SLOT(succeed),
};

/* ---- switches of a profiler: two arrays that stay 0. Their lengths are checked ---- */

enum { SWITCHES = 1024, OTHER_SWITCHES = 14 };
static uint64_t switches[SWITCHES], other_switches[32];

static void profiler_switches(void **array, size_t *count)
{
    *array = switches;
    *count = SWITCHES;
}

static void other_profiler_switches(void **array, size_t *count)
{
    *array = other_switches;
    *count = OTHER_SWITCHES;
}

enum { HOOKS_SLOTS = 7 };
static const slot hooks_table[HOOKS_SLOTS] = {
    [0] = SLOT(sizeof(slot) * HOOKS_SLOTS),
    [1] = SLOT(succeed),
    [2] = SLOT(profiler_switches),
    [3] = SLOT(succeed),
    [4] = SLOT(succeed),
    [5] = SLOT(succeed),
    [6] = SLOT(other_profiler_switches),
};

/* ---- the current context, NULL and no error where there is none ---- */

static int current_context(CUcontext *out)
{
    CORE_GATE("a private function of the driver (current_context)");
    int error = driver_ready();
    if (!error && !out)
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error)
        *out = driver_thread_context();
    return error;
}

enum { CURRENT_SLOTS = 3 };
static const slot current_table[CURRENT_SLOTS] = {
    [0] = SLOT(sizeof(slot) * CURRENT_SLOTS),
    [1] = SLOT(unknown_current),
    [2] = SLOT(current_context),
};

/* ---- context-local storage. NULL is the current context, which need not exist yet ---- */

static int storage_context(CUcontext *context)
{
    if (!*context)
        *context = driver_thread_context();
    return *context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static int storage_put(CUcontext context, void *key, void *value, driver_storage_end end)
{
    CORE_GATE("a private function of the driver (storage_put)");
    int error = storage_context(&context);
    return error ? error : driver_storage_put(context, key, value, end);
}

static int storage_remove(CUcontext context, void *key)
{
    CORE_GATE("a private function of the driver (storage_remove)");
    int error = storage_context(&context);
    return error ? error : driver_storage_remove(context, key);
}

static int storage_get(void **value, CUcontext context, void *key)
{
    CORE_GATE("a private function of the driver (storage_get)");
    int error = storage_context(&context);
    return error ? error : driver_storage_get(context, key, value);
}

/* This one has no size at its beginning. */
static const slot storage_table[] = { SLOT(storage_put), SLOT(storage_remove), SLOT(storage_get), NULL };

/* ---- checks of a context ---- */

/* NULL is the current context: the runtime of 12.4 asks so before it waits for the device. cublasDestroy of 12.4.5 does
   not look at that wait's result, and an error would be the result of the next call of cuBLAS. */
static int context_check(CUcontext context, uint32_t *flags, void **unused)
{
    CORE_GATE("a private function of the driver (context_check)");
    (void)unused;
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (!context && !driver_thread_context())
        return CUDA_ERROR_INVALID_CONTEXT;
    *flags = 0;
    return CUDA_SUCCESS;
}

static uint32_t checks_on(void) { return 0; }

enum { CHECK_SLOTS = 15 };
static const slot check_table[CHECK_SLOTS] = {
    [0] = SLOT(sizeof(slot) * CHECK_SLOTS),
    [1] = SLOT(unknown_check),
    [2] = SLOT(context_check),
    [3] = SLOT(checks_on),
    [4 ... CHECK_SLOTS - 1] = SLOT(unknown_check),
};

/* ---- the value by which the runtime knows that the driver answers: HMAC (RFC 2104) over MD2 (RFC 1319) ---- */

enum { BLOCK = 16, ROUNDS = 18 };

struct md2 {
    uint8_t state[3 * BLOCK], sum[BLOCK], rest[BLOCK];
    size_t filled;
};

/* RFC 1319, section 3.2: a permutation made from the digits of pi. */
static const uint8_t pi_digits[256] = {
    41,  46,  67,  201, 162, 216, 124, 1,   61,  54,  84,  161, 236, 240, 6,   19,  98,  167, 5,   243, 192, 199,
    115, 140, 152, 147, 43,  217, 188, 76,  130, 202, 30,  155, 87,  60,  253, 212, 224, 22,  103, 66,  111, 24,
    138, 23,  229, 18,  190, 78,  196, 214, 218, 158, 222, 73,  160, 251, 245, 142, 187, 47,  238, 122, 169, 104,
    121, 145, 21,  178, 7,   63,  148, 194, 16,  137, 11,  34,  95,  33,  128, 127, 93,  154, 90,  144, 50,  39,
    53,  62,  204, 231, 191, 247, 151, 3,   255, 25,  48,  179, 72,  165, 181, 209, 215, 94,  146, 42,  172, 86,
    170, 198, 79,  184, 56,  210, 150, 164, 125, 182, 118, 252, 107, 226, 156, 116, 4,   241, 69,  157, 112, 89,
    100, 113, 135, 32,  134, 91,  207, 101, 230, 45,  168, 2,   27,  96,  37,  173, 174, 176, 185, 246, 28,  70,
    97,  105, 52,  64,  126, 15,  85,  71,  163, 35,  221, 81,  175, 58,  195, 92,  249, 206, 186, 197, 234, 38,
    44,  83,  13,  110, 133, 40,  132, 9,   211, 223, 205, 244, 65,  129, 77,  82,  106, 220, 55,  200, 108, 193,
    171, 250, 36,  225, 123, 8,   12,  189, 177, 74,  120, 136, 149, 139, 227, 99,  232, 109, 233, 203, 213, 254,
    59,  0,   29,  57,  242, 239, 183, 14,  102, 88,  208, 228, 166, 119, 114, 248, 235, 117, 75,  10,  49,  68,
    80,  180, 143, 237, 31,  26,  219, 153, 141, 51,  159, 17,  131, 20,
};

static void md2_block(struct md2 *md, const uint8_t block[BLOCK])
{
    uint8_t last = md->sum[BLOCK - 1], t = 0;
    for (int i = 0; i < BLOCK; i++) {
        md->state[BLOCK + i] = block[i];
        md->state[2 * BLOCK + i] = md->state[i] ^ block[i];
        last = md->sum[i] ^= pi_digits[block[i] ^ last];
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 3 * BLOCK; i++)
            t = md->state[i] ^= pi_digits[t];
        t = (uint8_t)(t + round);
    }
}

static void md2_add(struct md2 *md, const void *data, size_t size)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < size; i++) {
        md->rest[md->filled++] = bytes[i];
        if (md->filled == BLOCK) {
            md2_block(md, md->rest);
            md->filled = 0;
        }
    }
}

static void md2_finish(struct md2 *md, uint8_t out[BLOCK])
{
    uint8_t padding[BLOCK], sum[BLOCK];
    size_t missing = BLOCK - md->filled;
    memset(padding, (int)missing, missing);
    md2_add(md, padding, missing);
    memcpy(sum, md->sum, sizeof sum);
    md2_add(md, sum, sizeof sum);
    memcpy(out, md->state, BLOCK);
}

static const uint8_t hmac_key[BLOCK] = {
    0x14, 0x6A, 0xDD, 0xAE, 0x53, 0xA9, 0xA7, 0x52, 0xAA, 0x08, 0x41, 0x36, 0x0B, 0xF5, 0x5A, 0x9F,
};

static struct md2 hmac_begin(uint8_t pad)
{
    struct md2 md = { .filled = 0 };
    uint8_t block[BLOCK];
    for (int i = 0; i < BLOCK; i++)
        block[i] = hmac_key[i] ^ pad;
    md2_add(&md, block, sizeof block);
    return md;
}

static void hmac_finish(struct md2 *inner, uint8_t out[BLOCK])
{
    enum { OUTER_PAD = 0x5C };
    uint8_t digest[BLOCK];
    struct md2 outer = hmac_begin(OUTER_PAD);
    md2_finish(inner, digest);
    md2_add(&outer, digest, sizeof digest);
    md2_finish(&outer, out);
}

static void add_device(struct md2 *md, int device)
{
    static const int place[] = { CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID,
                                 CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID };
    md2_add(md, core_device(device)->uuid, sizeof core_device(device)->uuid);
    for (size_t i = 0; i < sizeof place / sizeof place[0]; i++) {
        int32_t value = 0;
        if (core_device_attribute(device, place[i], &value))
            value = 0;
        md2_add(md, &value, sizeof value);
    }
}

static const slot integrity_table[];

/* version: of the runtime; seconds: of the clock. The runtime computes the same from what the public calls return. */
static int integrity(uint32_t version, uint64_t seconds, uint64_t out[2])
{
    CORE_GATE("a private function of the driver (integrity)");
    enum { INNER_PAD = 0x36 };
    const uint64_t constants[] = { UINT64_C(0x3341181C03CB675C), UINT64_C(0x1841181C03CB675C) };
    int driver, count, error = core_driver_version(&driver);
    if (error || (error = core_device_count(&count)))
        return error;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (version % 10 < 2) {
        out[0] = constants[version % 10];
        out[1] = UINT64_C(0x8ED383AA1F4CD1E8);
        return CUDA_SUCCESS;
    }
    const uint32_t numbers[] = { (uint32_t)driver, version, (uint32_t)getpid(), (uint32_t)pthread_self() };
    const uint64_t places[] = { (uintptr_t)runtime_table, (uintptr_t)integrity_table, (uintptr_t)integrity_table[1],
                                seconds };
    struct md2 md = hmac_begin(INNER_PAD);
    md2_add(&md, numbers, sizeof numbers);
    md2_add(&md, places, sizeof places);
    for (int i = 0; i < count; i++)
        add_device(&md, i);
    hmac_finish(&md, (uint8_t *)out);
    return CUDA_SUCCESS;
}

enum { INTEGRITY_SLOTS = 3 };
static const slot integrity_table[INTEGRITY_SLOTS] = {
    [0] = SLOT(sizeof(slot) * INTEGRITY_SLOTS),
    [1] = SLOT(integrity),
    [2] = SLOT(succeed),
};

/* ---- contexts and streams by number, for cuBLAS and cuFFT ---- */

static int context_number(CUcontext context, uint64_t *id)
{
    CORE_GATE("a private function of the driver (context_number)");
    unsigned long long found = 0;
    core_context *known;
    int error = id ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (!error && context)
        error = driver_context(context, &known);
    if (!error && context)
        error = driver_context_id(context, &found);
    if (!error)
        *id = found;
    return error;
}

/* What stands for a stream inside the driver: its number, and one more, since 0 means none. */
static int stream_object(CUcontext context, CUstream stream, void **object)
{
    CORE_GATE("a private function of the driver (stream_object)");
    struct core_stream_info info;
    core_context *known;
    int error = driver_context(context, &known);
    if (!error && !object)
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error && !(error = core_stream_info(known, stream, &info)))
        *object = (void *)(uintptr_t)(info.id + 1);
    return error;
}

static int stream_number(CUcontext context, const void *object, uint64_t *id)
{
    CORE_GATE("a private function of the driver (stream_number)");
    (void)context;
    if (!object || !id)
        return CUDA_ERROR_INVALID_VALUE;
    *id = (uintptr_t)object - 1;
    return CUDA_SUCCESS;
}

enum { CONTEXT_SLOTS = 95 };
static const slot context_table[CONTEXT_SLOTS] = {
    [0] = SLOT(sizeof(slot) * CONTEXT_SLOTS),
    [1 ... 3] = SLOT(unknown_context),
    [4] = SLOT(context_number),
    [5 ... 38] = SLOT(unknown_context),
    [39] = SLOT(stream_number),
    [40 ... 50] = SLOT(unknown_context),
    [51] = SLOT(stream_object),
    [52 ... CONTEXT_SLOTS - 1] = SLOT(unknown_context),
};

/* cuFFT asks for the functions of a module here, and takes 1 for yes. */
static int each_function(CUcontext context, CUmodule module, void (*get)(void *user, CUfunction, CUmodule), void *user)
{
    CORE_GATE("a private function of the driver (each_function)");
    (void)context;
    return get && !driver_module_each(module, get, user);
}

enum { MODULE_SLOTS = 92 };
static const slot module_table[MODULE_SLOTS] = {
    [0] = SLOT(sizeof(slot) * MODULE_SLOTS),
    [1 ... 6] = SLOT(unknown_module),
    [7] = SLOT(each_function),
    [8 ... MODULE_SLOTS - 1] = SLOT(unknown_module),
};

/* cuBLASLt asks for something unknown, takes 801 for an answer, and goes on. It does not look whether the table is
   there. */
static int no_answer(void) { return CUDA_ERROR_NOT_SUPPORTED; }

enum { HEURISTICS_SLOTS = 16 };
static const slot heuristics_table[HEURISTICS_SLOTS] = {
    [0] = SLOT(sizeof(slot) * HEURISTICS_SLOTS),
    [1 ... 3] = SLOT(unknown_heuristics),
    [4] = SLOT(no_answer),
    [5 ... HEURISTICS_SLOTS - 1] = SLOT(unknown_heuristics),
};

/* ---- which tables there are ---- */

/* table NULL: it is known, and refused without a word. Its users then do without it. */
static const struct {
    uint8_t id[16];
    const void *table;
} tables[] = {
    { { 0x6B, 0xD5, 0xFB, 0x6C, 0x5B, 0xF4, 0xE7, 0x4A, 0x89, 0x87, 0xD9, 0x39, 0x12, 0xFD, 0x9D, 0xF9 },
      runtime_table },
    { { 0xA0, 0x94, 0x79, 0x8C, 0x2E, 0x74, 0x2E, 0x74, 0x93, 0xF2, 0x08, 0x00, 0x20, 0x0C, 0x0A, 0x66 }, hooks_table },
    { { 0x42, 0xD8, 0x5A, 0x81, 0x23, 0xF6, 0xCB, 0x47, 0x82, 0x98, 0xF6, 0xE7, 0x8A, 0x3A, 0xEC, 0xDC },
      current_table },
    { { 0xC6, 0x93, 0x33, 0x6E, 0x11, 0x21, 0xDF, 0x11, 0xA8, 0xC3, 0x68, 0xF3, 0x55, 0xD8, 0x95, 0x93 },
      storage_table },
    { { 0x26, 0x3E, 0x88, 0x60, 0x7C, 0xD2, 0x61, 0x43, 0x92, 0xF6, 0xBB, 0xD5, 0x00, 0x6D, 0xFA, 0x7E }, check_table },
    { { 0xD4, 0x08, 0x20, 0x55, 0xBD, 0xE6, 0x70, 0x4B, 0x8D, 0x34, 0xBA, 0x12, 0x3C, 0x66, 0xE1, 0xF2 },
      integrity_table },
    { { 0x21, 0x31, 0x8C, 0x60, 0x97, 0x14, 0x32, 0x48, 0x8C, 0xA6, 0x41, 0xFF, 0x73, 0x24, 0xC8, 0xF2 },
      context_table },
    { { 0x6E, 0x16, 0x3F, 0xBE, 0xB9, 0x58, 0x44, 0x4D, 0x83, 0x5C, 0xE1, 0x82, 0xAF, 0xF1, 0x99, 0x1E },
      module_table },
    { { 0x17, 0x34, 0xDC, 0x26, 0x80, 0x0D, 0x47, 0x45, 0x87, 0x26, 0xC0, 0xF1, 0xE7, 0xDD, 0x8B, 0xCA },
      heuristics_table },
    { { 0xF8, 0xCF, 0xF9, 0x51, 0x21, 0x46, 0x8B, 0x4E, 0xB9, 0xE2, 0xFB, 0x46, 0x9E, 0x7C, 0x0D, 0xD9 }, NULL },
    { { 0xDA, 0x91, 0x51, 0xD3, 0x3A, 0xE6, 0xCC, 0x41, 0xA5, 0xC0, 0x4F, 0x26, 0xD5, 0x33, 0xE3, 0x28 }, NULL },
};

/* ---- compute-sanitizer ----
 *
 * It loads a library into the program, which would put checks into the machine code of kernels. The library does not
 * bear that a table is refused: it ends the program with SIGSEGV. So there it gets a table whose functions all return
 * 801, and the program runs, unwatched. */

static int unwatched(void) { return CUDA_ERROR_NOT_SUPPORTED; }

enum { UNWATCHED_SLOTS = 128 };
static const slot unwatched_table[UNWATCHED_SLOTS] = {
    [0] = SLOT(sizeof(slot) * UNWATCHED_SLOTS),
    [1 ... UNWATCHED_SLOTS - 1] = SLOT(unwatched),
};

static int is_sanitizer(struct dl_phdr_info *object, size_t size, void *unused)
{
    const char *slash = strrchr(object->dlpi_name, '/');
    (void)size, (void)unused;
    return strncmp(slash ? slash + 1 : object->dlpi_name, "libsanitizer-collection.so", 26) == 0;
}

static void tell_unwatched(void)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&told))
        log_warning("compute-sanitizer cannot watch kernels that run on a GPU server: the program runs without it. "
                    "FLYT_SOFTGPU_MEMCHECK=1 where the server runs finds what it would find (docs/debugging.md)");
}

/* One line for the first one: a profiler asks for dozens. */
static void tell_unknown(const uint8_t id[16])
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    char text[33];
    if (atomic_flag_test_and_set(&told))
        return;
    for (int i = 0; i < 16; i++)
        snprintf(text + 2 * i, 3, "%02X", id[i]);
    log_warning("a library of this program asks NVIDIA's driver for the private table %s, which Flyt does not know. "
                "The library may"
                " report an error. Further such tables are refused without a message",
                text);
}

const void *driver_export_table(const CUuuid *id)
{
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        if (memcmp(tables[i].id, id->bytes, sizeof tables[i].id) == 0)
            return tables[i].table;
    if (dl_iterate_phdr(is_sanitizer, NULL)) {
        tell_unwatched();
        return unwatched_table;
    }
    tell_unknown((const uint8_t *)id->bytes);
    return NULL;
}

#else

#include <stdatomic.h>

#include "cpu/common/log.h"

const void *driver_export_table(const CUuuid *id)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    (void)id;
    if (!atomic_flag_test_and_set(&told))
        log_error(
            "this libcuda.so.1 was built without support for NVIDIA's own CUDA runtime and libraries (make INTEROP=no)."
            " Link the program with nvcc -cudart shared, or install a build that has it");
    return NULL;
}

#endif
