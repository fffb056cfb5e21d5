/* clones.c: which level of the processor is there. See clones.h. */
#include "softgpu/alu/clones.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#ifdef __x86_64__
#include <cpuid.h>

/* movbe, f16c and lzcnt have no name in __builtin_cpu_supports of older compilers. */
static bool cpu_has_v3(void)
{
    unsigned a, b, c, d;
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("bmi") || !__builtin_cpu_supports("bmi2") ||
        !__builtin_cpu_supports("fma"))
        return false;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_MOVBE) || !(c & bit_F16C))
        return false;
    return __get_cpuid(0x80000001, &a, &b, &c, &d) && (c & bit_LZCNT);
}

static bool cpu_has_v4(void)
{
    return cpu_has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}
#else
static bool cpu_has_v3(void) { return false; }
static bool cpu_has_v4(void) { return false; }
#endif

const char *sg_cpu_name(enum sg_cpu level)
{
    return level == SG_CPU_V4 ? "v4" : level == SG_CPU_V3 ? "v3" : "base";
}

enum sg_cpu sg_cpu_level(void)
{
    static _Atomic int known = -1;       /* every thread finds the same; the first to do so saves the others the work */
    int level = atomic_load_explicit(&known, memory_order_relaxed);
    if (level >= 0)
        return (enum sg_cpu)level;
    level = cpu_has_v4() ? SG_CPU_V4 : cpu_has_v3() ? SG_CPU_V3 : SG_CPU_BASE;
    const char *wish = getenv("FLYT_SOFTGPU_CPU");
    for (int lower = SG_CPU_BASE; wish && lower < level; lower++)
        if (!strcmp(wish, sg_cpu_name((enum sg_cpu)lower)))
            level = lower;
    atomic_store_explicit(&known, level, memory_order_relaxed);
    return (enum sg_cpu)level;
}
