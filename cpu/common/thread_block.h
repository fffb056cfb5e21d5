/*
 * thread_block.h: where a library's thread-local variables lie.
 *
 * The loader gives each thread a block for the variables of a library that was opened later. LeakSanitizer (of gcc 12,
 * for example) takes a block that begins 16 bytes behind a page for one of an old glibc, which had a head there: it
 * reads rubbish as the block's size, and ends the program. So one variable of each library is aligned to more than
 * 16 bytes.
 */
#ifndef FLYT_COMMON_THREAD_BLOCK_H
#define FLYT_COMMON_THREAD_BLOCK_H

#define THREAD_BLOCK _Alignas(64) _Thread_local

#endif
