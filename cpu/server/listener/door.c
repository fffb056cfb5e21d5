/* door.c: see door.h. */
#include "cpu/server/listener/door.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cpu/common/clock.h"

enum { SOURCE_UNKNOWN, SOURCE_IPV4, SOURCE_IPV6, SOURCE_USER };

/* ---- sources ---- */

/* Where a connected socket comes from. */
static struct door_source door_source_of(int fd)
{
    struct door_source source = { .kind = SOURCE_UNKNOWN };
    struct sockaddr_storage peer;
    struct ucred user;
    socklen_t size = sizeof peer, user_size = sizeof user;
    if (getpeername(fd, (struct sockaddr *)&peer, &size) != 0)
        return source;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&peer;
    if (peer.ss_family == AF_INET) {
        source.kind = SOURCE_IPV4;
        memcpy(source.bytes, &((const struct sockaddr_in *)&peer)->sin_addr, 4);
    } else if (peer.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) {
        source.kind = SOURCE_IPV4;
        memcpy(source.bytes, six->sin6_addr.s6_addr + 12, 4);
    } else if (peer.ss_family == AF_INET6) {
        source.kind = SOURCE_IPV6; /* a machine has the other half to itself */
        memcpy(source.bytes, six->sin6_addr.s6_addr, 8);
    } else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &user_size) == 0) {
        source.kind = SOURCE_USER;
        memcpy(source.bytes, &user.uid, sizeof user.uid);
    }
    return source;
}

bool door_same_source(const struct door_source *a, const struct door_source *b)
{
    return a->kind == b->kind && memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

/* ---- places ---- */

static int count_of(const struct door *door, const struct door_source *source)
{
    int count = 0;
    for (int i = 0; i < door->count; i++)
        count += door_same_source(&door->waiting[i].source, source);
    return count;
}

/* The one of that source that goes first: silent for the longest time; -1: none is silent. */
static int longest_silent(const struct door *door, const struct door_source *source)
{
    for (int i = 0; i < door->count; i++)
        if (!door->waiting[i].spoke && door_same_source(&door->waiting[i].source, source))
            return i;
    return -1;
}

/* The last that came of it. */
static int newest(const struct door *door, const struct door_source *source)
{
    for (int i = door->count - 1; i >= 0; i--)
        if (door_same_source(&door->waiting[i].source, source))
            return i;
    return -1;
}

static const struct door_source *greediest(const struct door *door, int *most)
{
    const struct door_source *found = NULL;
    *most = 0;
    for (int i = 0; i < door->count; i++) {
        int count = count_of(door, &door->waiting[i].source);
        if (count > *most) {
            *most = count;
            found = &door->waiting[i].source;
        }
        if (*most > door->count / 2)
            break; /* nobody has more */
    }
    return found;
}

/* Whether there is a place for one more of the source, then or after somebody was closed. */
static bool make_place(struct door *door, const struct door_source *source)
{
    int own = count_of(door, source), most, first;
    if (door->count < door->most && own < DOOR_SOURCE_PLACES)
        return true;
    const struct door_source *from = greediest(door, &most);
    if (!from || own >= most)
        from = source;
    first = longest_silent(door, from);
    if (first < 0 && from != source)
        first = newest(door, from);
    if (first < 0)
        return false;
    door_remove(door, first);
    return true;
}

bool door_add(struct door *door, int fd, bool tls, uint64_t deadline)
{
    struct door_source source = door_source_of(fd);
    if (!make_place(door, &source)) {
        close(fd);
        return false;
    }
    door->waiting[door->count++] =
        (struct door_waiting){ .fd = fd, .tls = tls, .deadline = deadline, .source = source };
    return true;
}

struct door_waiting door_take(struct door *door, int i)
{
    const struct door_waiting taken = door->waiting[i];
    memmove(&door->waiting[i], &door->waiting[i + 1], (size_t)(door->count - i - 1) * sizeof *door->waiting);
    door->count--;
    return taken;
}

void door_close(const struct door_waiting *waiting)
{
    close(waiting->fd);
    free(waiting->knock);
}

void door_remove(struct door *door, int i)
{
    const struct door_waiting taken = door_take(door, i);
    door_close(&taken);
}

void door_put_back(struct door *door, const struct door_waiting *waiting)
{
    if (waiting->given >= DOOR_GIVEN_MOST || !make_place(door, &waiting->source)) {
        door_close(waiting);
        return;
    }
    memmove(&door->waiting[1], &door->waiting[0], (size_t)door->count++ * sizeof *door->waiting);
    door->waiting[0] = *waiting;
    door->waiting[0].given++;
}

/* ---- failures ---- */

/* What has run off since then is taken from the count. */
static void run_off(struct door_failures *failures, uint64_t now)
{
    uint64_t step = CLOCK_NS_PER_SECOND / DOOR_FAILURES_PER_SECOND, steps = (now - failures->since) / step;
    failures->count -= steps < failures->count ? (uint32_t)steps : failures->count;
    failures->since = failures->count ? failures->since + steps * step : now;
}

/* NULL: it has not failed lately. make: its entry, in place of the one with the fewest. */
static struct door_failures *failures_of(struct door *door, const struct door_source *source, uint64_t now, bool make)
{
    struct door_failures *least = &door->failures[0];
    for (int i = 0; i < DOOR_FAILURE_SOURCES; i++) {
        struct door_failures *failures = &door->failures[i];
        run_off(failures, now);
        if (failures->count && door_same_source(&failures->source, source))
            return failures;
        if (failures->count < least->count)
            least = failures;
    }
    if (!make)
        return NULL;
    *least = (struct door_failures){ .source = *source, .since = now };
    return least;
}

void door_failed(struct door *door, const struct door_source *source, uint64_t now)
{
    struct door_failures *failures = failures_of(door, source, now, true);
    failures->count += failures->count < 2 * DOOR_FAILURES;
}

uint64_t door_barred(struct door *door, const struct door_source *source, uint64_t now)
{
    const struct door_failures *failures = failures_of(door, source, now, false);
    uint64_t step = CLOCK_NS_PER_SECOND / DOOR_FAILURES_PER_SECOND;
    if (!failures || failures->count < DOOR_FAILURES)
        return 0;
    return failures->since + step * (failures->count - DOOR_FAILURES + 1);
}
