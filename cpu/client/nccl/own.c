/*
 * own.c: see own.h. The loader takes this library for each one that is called libnccl.so.2, so another one is opened by
 * its path.
 */
#include "cpu/client/nccl/own.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cpu/common/env.h"
#include "cpu/common/log.h"

static const char name[] = "libnccl.so.2";
enum { LOADED_MOST = 16 };

extern const char flyt_libnccl;

/* ---- one library ---- */

static bool is_this_one(const char *path)
{
    Dl_info own;
    struct stat here, there;
    return dladdr(&flyt_libnccl, &own) && own.dli_fname && stat(own.dli_fname, &here) == 0 && stat(path, &there) == 0 &&
           here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

/* NULL: it is none, or one of Flyt's, or cannot be loaded. flags: in addition to the usual ones. */
static void *opened(const char *path, int flags)
{
    if (is_this_one(path))
        return NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | flags);
    if (!library && !(flags & RTLD_NOLOAD) && access(path, R_OK) == 0)
        log_info("%s cannot be loaded: %s", path, dlerror());
    if (library && (dlsym(library, "flyt_libnccl") || !dlsym(library, "ncclGetUniqueId"))) {
        dlclose(library);
        return NULL;
    }
    return library;
}

/* ---- those that are loaded ---- */

struct loaded {
    char *paths[LOADED_MOST];
    size_t count;
};

/* The loader's lock is held: nothing may be opened here. */
static int note(struct dl_phdr_info *object, size_t size, void *context)
{
    struct loaded *loaded = context;
    const char *slash = strrchr(object->dlpi_name, '/');
    (void)size;
    if (slash && strncmp(slash + 1, "libnccl.so", 10) == 0 && loaded->count < LOADED_MOST &&
        (loaded->paths[loaded->count] = strdup(object->dlpi_name)))
        loaded->count++;
    return 0;
}

static void *of_loaded(char path[PATH_MAX])
{
    struct loaded loaded = { .count = 0 };
    void *library = NULL;
    dl_iterate_phdr(note, &loaded);
    for (size_t i = 0; i < loaded.count; i++) {
        if (!library && (library = opened(loaded.paths[i], RTLD_NOLOAD)))
            snprintf(path, PATH_MAX, "%s", loaded.paths[i]);
        free(loaded.paths[i]);
    }
    return library;
}

/* ---- the caller's folders ---- */

static void *of_folders(const void *caller, char path[PATH_MAX])
{
    Dl_info info;
    struct link_map *object = NULL;
    Dl_serinfo size, *folders = NULL;
    void *library = NULL;
    if (!dladdr1(caller, &info, (void **)&object, RTLD_DL_LINKMAP) || !object)
        return NULL;
    void *handle = dlopen(*object->l_name ? object->l_name : NULL, RTLD_LAZY | RTLD_NOLOAD);
    if (handle && dlinfo(handle, RTLD_DI_SERINFOSIZE, &size) == 0)
        folders = malloc(size.dls_size);
    if (folders)
        *folders = (Dl_serinfo){ .dls_size = size.dls_size, .dls_cnt = size.dls_cnt };
    if (folders && dlinfo(handle, RTLD_DI_SERINFO, folders) == 0)
        for (unsigned i = 0; i < folders->dls_cnt && !library; i++) {
            int length = snprintf(path, PATH_MAX, "%s/%s", folders->dls_serpath[i].dls_name, name);
            library = length < PATH_MAX ? opened(path, 0) : NULL;
        }
    free(folders);
    if (handle)
        dlclose(handle); /* it stays loaded: its code is calling us */
    return library;
}

/* ---- the loader's cache ---- */

/* glibc's sysdeps/generic/dl-cache.h, from 2.2 on. */
struct cache_head {
    char magic[20];
    uint32_t count, strings_size;
    uint8_t flags, padding[3];
    uint32_t extension, unused[3];
};
struct cache_entry {
    int32_t flags;
    uint32_t key, value; /* places of texts, from the head on */
    uint32_t version;
    uint64_t hardware;
};
enum { CACHE_X86_64 = 0x0303 };

static const char *text_at(const char *cache, size_t size, uint32_t at)
{
    return at < size && memchr(cache + at, 0, size - at) ? cache + at : "";
}

static void *of_cache_text(const char *cache, size_t size, char path[PATH_MAX])
{
    static const char magic[] = "glibc-ld.so.cache1.1";
    const struct cache_head *head = (const struct cache_head *)cache;
    const struct cache_entry *entries = (const struct cache_entry *)(head + 1);
    void *library = NULL;
    if (size < sizeof *head || memcmp(head->magic, magic, sizeof head->magic) != 0 ||
        head->count > (size - sizeof *head) / sizeof *entries)
        return NULL;
    for (uint32_t i = 0; i < head->count && !library; i++) {
        const char *file = text_at(cache, size, entries[i].value);
        if (entries[i].flags != CACHE_X86_64 || strcmp(text_at(cache, size, entries[i].key), name) != 0 ||
            strlen(file) >= PATH_MAX)
            continue;
        strcpy(path, file);
        library = opened(path, 0);
    }
    return library;
}

static void *of_cache(char path[PATH_MAX])
{
    struct stat is;
    int fd = open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC);
    size_t size = fd >= 0 && fstat(fd, &is) == 0 && is.st_size > 0 ? (size_t)is.st_size : 0;
    char *cache = size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    if (fd >= 0)
        close(fd);
    if (cache == MAP_FAILED)
        return NULL;
    void *library = of_cache_text(cache, size, path);
    munmap(cache, size);
    return library;
}

void *nccl_own_find(const void *caller, char path[PATH_MAX])
{
    const char *named = env_get("FLYT_NCCL_PROGRAM");
    if (named && *named) {
        snprintf(path, PATH_MAX, "%s", named);
        return opened(path, 0);
    }
    void *library = of_loaded(path);
    if (!library)
        library = of_folders(caller, path);
    if (!library)
        library = of_cache(path);
    if (!library)
        *path = '\0';
    return library;
}
