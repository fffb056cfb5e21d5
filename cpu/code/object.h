/*
 * object.h: the fat binary containers in object files of nvcc (ELF, as compiled with -rdc=true or -dc) and in archives
 * of them (.a). Input may be hostile: every offset and size is checked against the bytes at hand.
 */
#ifndef FLYT_CODE_OBJECT_H
#define FLYT_CODE_OBJECT_H

#include <stdbool.h>
#include <stddef.h>

/* Called for one container, whose bytes lie inside the object. False: no more, please. */
typedef bool object_container(void *context, const void *container, size_t size);

/* Visits the containers in the sections of an ELF object. -1: it is no ELF object of 64 bits, or is damaged. */
int object_containers(const void *object, size_t size, object_container *each, void *context);

struct archive_member {
    const void *data;
    size_t size;
};

bool archive_is(const void *data, size_t size);
/* The next member that holds a file. *cursor starts at 0. 1: *member filled; 0: end; -1: damaged. */
int archive_next(const void *archive, size_t size, size_t *cursor, struct archive_member *member);

#endif
