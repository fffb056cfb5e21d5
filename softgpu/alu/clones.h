/*
 * clones.h: one C file, compiled once for each level of the processor, chosen at run time.
 *
 * A file of row loops is compiled for plain x86-64 ("base"), x86-64-v3 (AVX2, FMA, F16C) and x86-64-v4
 * (AVX-512); elsewhere for base alone. Its public names go through SG_CLONE(name), which gives each copy
 * a name of its own; everything else in it is static. One ordinary file then holds
 *
 *     SG_CLONE_DECLARE(const struct my_table, my_table);
 *     static const struct my_table *const tables[] = SG_CLONE_ADDRESSES(my_table);
 *     … tables[sg_cpu_level()] …
 *
 * and the room's room.mk asks for the copies with $(call softgpu_clone_objects,softgpu/room/file.c).
 * This was preferred to gcc's target_clones attribute because clang 14 lacks the levels, because resolvers
 * run before the sanitizers are ready, and because a test can ask for each copy by its number.
 */
#ifndef SOFTGPU_CLONES_H
#define SOFTGPU_CLONES_H

enum sg_cpu { SG_CPU_BASE, SG_CPU_V3, SG_CPU_V4, SG_CPU_COUNT };

/* The highest level that this processor and its system have, lowered by FLYT_SOFTGPU_CPU=base|v3 if set.
   Always below SG_CPU_COUNT, and SG_CPU_BASE where there is only that. Thread-safe. */
enum sg_cpu sg_cpu_level(void);
const char *sg_cpu_name(enum sg_cpu);

#define SG_CLONE_JOIN_(a, b) a##_##b
#define SG_CLONE_JOIN(a, b) SG_CLONE_JOIN_(a, b)
#ifndef SG_CLONE_LEVEL                       /* set by the build: base, v3 or v4 */
#define SG_CLONE_LEVEL base
#endif
#define SG_CLONE(name) SG_CLONE_JOIN(name, SG_CLONE_LEVEL)

#ifdef __x86_64__
#define SG_CLONE_DECLARE(type, name) extern type name##_base, name##_v3, name##_v4
#define SG_CLONE_ADDRESSES(name) { &name##_base, &name##_v3, &name##_v4 }
#else
#define SG_CLONE_DECLARE(type, name) extern type name##_base
#define SG_CLONE_ADDRESSES(name) { &name##_base, &name##_base, &name##_base }
#endif

/* Before a loop over lanes: no iteration depends on another, though rows may be one and the same. clang would
   unroll 32 iterations before it thinks of vectors. */
#ifdef __clang__
#define SG_LANES_INDEPENDENT _Pragma("clang loop vectorize(assume_safety) unroll(disable)")
#else
#define SG_LANES_INDEPENDENT _Pragma("GCC ivdep")
#endif
#define SG_FOR_LANES(i) SG_LANES_INDEPENDENT for (unsigned i = 0; i < 32; i++)

#endif
