/* handle.c: see handle.h. */
#include "cpu/comm/link/handle.h"

#include "cpu/common/little_endian.h"

#include <ctype.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HANDLE_MAGIC = 0x484c7946, HANDLE_VERSION = 1 };         /* "FyLH" */

static uint8_t *put_bytes(uint8_t *at, const void *bytes, size_t size)
{
    memcpy(at, bytes, size);
    return at + size;
}

static const uint8_t *get_bytes(const uint8_t *at, void *bytes, size_t size)
{
    memcpy(bytes, at, size);
    return at + size;
}

void comm_handle_put(uint8_t bytes[COMM_HANDLE_SIZE], const struct comm_handle *h)
{
    uint8_t *at = little_put(bytes, HANDLE_MAGIC, 4);
    at = little_put(at, HANDLE_VERSION, 1);
    at = little_put(at, h->flags, 1);
    at = little_put(at, h->channel, 1);
    at = little_put(at, h->channels, 1);
    at = put_bytes(at, h->link, COMM_ID_SIZE);
    at = put_bytes(at, h->engine, COMM_ID_SIZE);
    at = little_put(at, h->address.family, 2);
    at = little_put(at, h->address.port, 2);
    at = little_put(at, 0, 4);
    at = put_bytes(at, h->address.bytes, 16);
    at = put_bytes(at, h->key, COMM_KEY_SIZE);
    at = put_bytes(at, h->fingerprint, COMM_FINGERPRINT_SIZE);
    put_bytes(at, h->place, COMM_PLACE_SIZE);
}

bool comm_handle_get(const uint8_t bytes[COMM_HANDLE_SIZE], struct comm_handle *h)
{
    const uint8_t *at = bytes;
    bool good = little_get(&at, 4) == HANDLE_MAGIC && little_get(&at, 1) == HANDLE_VERSION;
    h->flags = (uint8_t)little_get(&at, 1);
    h->channel = (uint8_t)little_get(&at, 1);
    h->channels = (uint8_t)little_get(&at, 1);
    at = get_bytes(at, h->link, COMM_ID_SIZE);
    at = get_bytes(at, h->engine, COMM_ID_SIZE);
    h->address.family = (uint8_t)little_get(&at, 1);
    good &= little_get(&at, 1) == 0;
    h->address.port = (uint16_t)little_get(&at, 2);
    good &= little_get(&at, 4) == 0;
    at = get_bytes(at, h->address.bytes, 16);
    at = get_bytes(at, h->key, COMM_KEY_SIZE);
    at = get_bytes(at, h->fingerprint, COMM_FINGERPRINT_SIZE);
    get_bytes(at, h->place, COMM_PLACE_SIZE);
    return good && (h->flags & ~(HANDLE_TLS | HANDLE_SHARED | HANDLE_UCX)) == 0 && h->channels >= 2 &&
           h->channels <= COMM_HANDLES_MOST && h->channel < h->channels &&
           (((h->address.family == 4 || h->address.family == 6) && h->address.port != 0) ||
            (h->address.family == 2 && h->address.port == 0));
}

/* The kernel's boot id, mixed with the number of the network namespace: unix sockets without a file are seen there. */
void comm_handle_place(uint8_t place[COMM_PLACE_SIZE])
{
    char text[40] = "";
    struct stat space;
    memset(place, 0, COMM_PLACE_SIZE);
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || stat("/proc/self/ns/net", &space) != 0) {
        if (fd >= 0)
            close(fd);
        return;
    }
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    for (ssize_t i = 0, nibble = 0; i < got && nibble < 2 * COMM_PLACE_SIZE; i++) {
        if (!isxdigit((unsigned char)text[i]))
            continue;
        int value = isdigit((unsigned char)text[i]) ? text[i] - '0' : tolower((unsigned char)text[i]) - 'a' + 10;
        place[nibble / 2] = (uint8_t)(place[nibble / 2] << 4 | value);
        nibble++;
    }
    for (int i = 0; i < 8; i++)
        place[i] ^= (uint8_t)((uint64_t)space.st_ino >> 8 * i);
}
