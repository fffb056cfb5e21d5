/*
 * store.h: compiled code on disk, so that a program need not compile it again when a person starts it anew.
 *
 * The store is a folder of the user's own, in which each file is the machine code of one region (an ELF object). Its
 * name is the BLAKE2b-256, in hex, of what the code was made from: LLVM's instructions before they were optimised, the
 * compiler's build and the processor's level. So a file is never out of date; what nobody asks for any more is removed
 * once the folder is full. Processes may share a folder.
 *
 * A file that is not whole, or that somebody else may write, is not used. Whoever may write the user's files may run
 * code as the user anyway.
 *
 * Not thread-safe: the caller has a lock.
 */
#ifndef SOFTGPU_JIT_STORE_H
#define SOFTGPU_JIT_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STORE_KEY = 32 };

/* The store keeps at most so many files and bytes, and removes those that were not used for longest. It keeps no larger
   file than that. */
enum { STORE_FILES_MOST = 4096, STORE_BYTES_MOST = 256 << 20, STORE_FILE_MOST = 16 << 20 };

/* Opens the folder, and makes it, and those above it, if they are absent. false: why says the reason; the folder is not
   used. */
bool store_open(const char *folder, char *why, size_t size);
/* The code of the key, for the caller to free; NULL: there is none. */
void *store_read(const uint8_t key[STORE_KEY], size_t *size);
/* Adds so many bytes to the sum, which becomes the BLAKE2b-256 of the sum before and theirs. */
void store_sum(uint8_t sum[STORE_KEY], const void *bytes, size_t size);
/* Keeps a copy, if it can. */
void store_write(const uint8_t key[STORE_KEY], const void *code, size_t size);
/* The code of the key turned out to be useless. */
void store_remove(const uint8_t key[STORE_KEY]);

#endif
