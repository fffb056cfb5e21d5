/*
 * bar_device.c: see bar_device.h.
 *
 * Why a mapping may be slow. The guest's kernel maps a device's memory uncached. Whether the processor obeys depends on
 * the host: KVM on Intel processors overrides it for memory that is really RAM, unless a device that does not keep
 * caches coherent is passed through to the guest; on AMD processors the guest's word counts. Uncached memory is read at
 * some 50 MB/s. A dax device is memory of the machine itself, which its kernel leaves alone and maps write-back.
 */
#include "cpu/rpc/shm/bar_device.h"

#include "cpu/common/clock.h"
#include "cpu/common/env.h"
#include "cpu/rpc/transport/channel.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#if defined __x86_64__
#include <cpuid.h>
#endif

#define DEVICES "/sys/bus/pci/devices"
#define DAX_DEVICES "/sys/bus/dax/devices"
enum { IVSHMEM_VENDOR = 0x1af4, IVSHMEM_DEVICE = 0x1110 };
/* Small, so that some pass is likely to be over before the system lets another process run. */
enum { PIECE = 16 * 1024, PASSES = 64 };
#define TIME_MOST (20 * CLOCK_NS_PER_MS)
/* MB/s. Software emulation copies several times slower than the processor, and still far faster than uncached memory.
   */
enum { LEAST = 1000, LEAST_EMULATED = 200 };

/* ---- finding ---- */

/* A number in a file of sysfs; -1: none. */
static long read_number(const char *folder, const char *device, const char *name)
{
    char path[BAR_PATH_SIZE + 32], text[32];
    if ((size_t)snprintf(path, sizeof path, "%s/%s/%s", folder, device, name) >= sizeof path)
        return -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (size <= 0)
        return -1;
    text[size] = 0;
    return strtol(text, NULL, 0);
}

static int is_ivshmem(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && read_number(DEVICES, entry->d_name, "vendor") == IVSHMEM_VENDOR &&
           read_number(DEVICES, entry->d_name, "device") == IVSHMEM_DEVICE;
}

static int is_dax(const struct dirent *entry)
{
    return strncmp(entry->d_name, "dax", 3) == 0;
}

/* Adds a path, which `before`, a device's name and `behind` make, for each device in this folder that `is` accepts. */
static size_t add_devices(char (*paths)[BAR_PATH_SIZE], size_t count, size_t most, const char *folder,
                          int (*is)(const struct dirent *), const char *before, const char *behind)
{
    struct dirent **entries;
    int found = scandir(folder, &entries, is, alphasort);
    for (int i = 0; i < found; i++) {
        if (count < most && (size_t)snprintf(paths[count], BAR_PATH_SIZE, "%s%s%s", before, entries[i]->d_name,
                                             behind) < BAR_PATH_SIZE)
            count++;
        free(entries[i]);
    }
    if (found >= 0)
        free(entries);
    return count;
}

size_t bar_devices(char (*paths)[BAR_PATH_SIZE], size_t most)
{
    size_t count = add_devices(paths, 0, most, DEVICES, is_ivshmem, DEVICES "/", "/resource2");
    return add_devices(paths, count, most, DAX_DEVICES, is_dax, "/dev/", "");
}

int bar_dax(dev_t number, uint64_t *size, uint64_t *align)
{
    char device[32];
    snprintf(device, sizeof device, "%u:%u", major(number), minor(number));
    long bytes = read_number("/sys/dev/char", device, "size"), unit = read_number("/sys/dev/char", device, "align");
    if (bytes <= 0 || unit <= 0)
        return -ENODEV;
    *size = (uint64_t)bytes;
    *align = (uint64_t)unit;
    return 0;
}

/* ---- measuring ---- */

static bool is_emulated(void)
{
#if defined __x86_64__
    enum { HYPERVISOR = 1u << 31, SIGNATURE = 0x40000000 };
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & HYPERVISOR))
        return false;
    __cpuid(SIGNATURE, a, b, c, d);
    const unsigned words[3] = { b, c, d };
    return memcmp(words, "TCGTCGTCGTCG", sizeof words) == 0;
#else
    return false;
#endif
}

/* FLYT_BAR_SPEED, or what fits this machine. */
static unsigned least_speed(void)
{
    const char *text = env_get("FLYT_BAR_SPEED");
    char *end;
    unsigned long value = text ? strtoul(text, &end, 10) : 0;
    if (text && *text >= '0' && *text <= '9' && !*end && value <= UINT32_MAX)
        return (unsigned)value;
    return is_emulated() ? LEAST_EMULATED : LEAST;
}

/* MB/s, of the fastest of some passes; the first one finds page faults. No more passes than `enough` needs. */
static unsigned read_speed(const void *memory, size_t size, unsigned enough)
{
    uint8_t into[PIECE];
    uint64_t begun = clock_now(), fastest = UINT64_MAX;
    size = size < sizeof into ? size : sizeof into;
    for (int i = 0; i < PASSES; i++) {
        uint64_t start = clock_now();
        memcpy(into, memory, size);
        __asm__ volatile("" : : "r"(into) : "memory");
        uint64_t now = clock_now(), took = now - start;
        fastest = took < fastest ? took : fastest;
        if ((uint64_t)size * 1000 >= enough * (fastest + 1) || (i && now - begun > TIME_MOST))
            break;
    }
    uint64_t speed = (uint64_t)size * 1000 / (fastest + 1);
    return speed < UINT32_MAX ? (unsigned)speed : UINT32_MAX;
}

int bar_check_speed(const void *memory, size_t size, const char *path, char *why)
{
    unsigned least = least_speed(), speed = least ? read_speed(memory, size, least) : 0;
    if (speed >= least)
        return 0;
    return rpc_explain(
        why, -EOPNOTSUPP,
        "%s is read at %u MB/s, less than %u: it is uncached. The kernel maps a device's memory so, and this machine's "
        "host does not override that (AMD processors, or a device passed through). docs/vm.md has another form",
        path, speed, least);
}
