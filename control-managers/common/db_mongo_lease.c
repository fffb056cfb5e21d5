#include "control-managers/common/db_mongo_lease.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "cpu/common/explain.h"

static const char lease_id[] = "manager";
enum { FAILED = 1, PLACE_SIZE = 128 };

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int mongo_lease_init(struct mongo_lease *lease)
{
    uint8_t random[16];
    *lease = (struct mongo_lease){ 0 };
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return -ENOSYS;
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(lease->token + 2 * i, 3, "%02x", random[i]);
    return 0;
}

/* ---- where a process is: pids mean something within one boot and one namespace only ---- */

static void this_place(char place[PLACE_SIZE])
{
    char boot[48] = "", space[48] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, boot, sizeof boot - 1);
    if (fd >= 0)
        close(fd);
    boot[got > 0 ? strcspn(boot, "\n") : 0] = '\0';
    got = readlink("/proc/self/ns/pid", space, sizeof space - 1);
    space[got > 0 ? got : 0] = '\0';
    snprintf(place, PLACE_SIZE, "%s %s", boot, space);
}

/* When it began, in the kernel's ticks; 0: there is no such process. */
static int64_t began(int64_t pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (got <= 0)
        return 0;
    text[got] = '\0';
    const char *at = strrchr(text, ')');        /* names may hold anything */
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoll(at, NULL, 10) : 0;
}

/* ---- the document ---- */

struct holder { char token[33], place[PLACE_SIZE], host[65]; int64_t beat, pid, began; };

static void take_text(bson_iter_t *iter, char *out, size_t size)
{
    snprintf(out, size, "%s", BSON_ITER_HOLDS_UTF8(iter) ? bson_iter_utf8(iter, NULL) : "");
}

static void read_holder(const bson_t *document, struct holder *holder)
{
    bson_iter_t iter;
    *holder = (struct holder){ 0 };
    bson_iter_init(&iter, document);
    while (bson_iter_next(&iter)) {
        const char *key = bson_iter_key(&iter);
        if (strcmp(key, "token") == 0)
            take_text(&iter, holder->token, sizeof holder->token);
        else if (strcmp(key, "place") == 0)
            take_text(&iter, holder->place, sizeof holder->place);
        else if (strcmp(key, "host") == 0)
            take_text(&iter, holder->host, sizeof holder->host);
        else if (strcmp(key, "beat") == 0)
            holder->beat = bson_iter_as_int64(&iter);
        else if (strcmp(key, "pid") == 0)
            holder->pid = bson_iter_as_int64(&iter);
        else if (strcmp(key, "began") == 0)
            holder->began = bson_iter_as_int64(&iter);
    }
}

/* 0: *there says whether there is one; FAILED. */
static int look(mongoc_collection_t *leases, struct holder *holder, bool *there, bson_error_t *failure)
{
    bson_t *match = BCON_NEW("_id", BCON_UTF8(lease_id));
    const bson_t *document;
    mongoc_cursor_t *cursor = mongoc_collection_find_with_opts(leases, match, NULL, NULL);
    *there = mongoc_cursor_next(cursor, &document);
    if (*there)
        read_holder(document, holder);
    bool failed = mongoc_cursor_error(cursor, failure);
    mongoc_cursor_destroy(cursor);
    bson_destroy(match);
    return failed ? FAILED : 0;
}

static bson_t *our_document(const struct mongo_lease *lease)
{
    char place[PLACE_SIZE], host[65] = "";
    this_place(place);
    gethostname(host, sizeof host - 1);
    return BCON_NEW("token", BCON_UTF8(lease->token), "beat", BCON_INT64(lease->beat), "host", BCON_UTF8(host), "pid",
                    BCON_INT64(getpid()), "place", BCON_UTF8(place), "began", BCON_INT64(began(getpid())));
}

/* Changes what matches. 0: done; -EAGAIN: nothing matches; FAILED. */
static int change(mongoc_collection_t *leases, bson_t *match, bson_t *update, bson_error_t *failure)
{
    bson_t reply;
    bson_iter_t iter;
    bool done = mongoc_collection_update_one(leases, match, update, NULL, &reply, failure);
    int64_t matched = done && bson_iter_init_find(&iter, &reply, "matchedCount") ? bson_iter_as_int64(&iter) : 0;
    bson_destroy(&reply);
    bson_destroy(match);
    bson_destroy(update);
    return !done ? FAILED : matched ? 0 : -EAGAIN;
}

static int insert(struct mongo_lease *lease, mongoc_collection_t *leases, bson_error_t *failure)
{
    bson_t *document = our_document(lease);
    bson_append_utf8(document, "_id", -1, lease_id, -1);
    bool done = mongoc_collection_insert_one(leases, document, NULL, NULL, failure);
    bson_destroy(document);
    return done ? 0 : failure->code == 11000 ? -EAGAIN : FAILED;      /* another was faster */
}

static int take_over(struct mongo_lease *lease, mongoc_collection_t *leases, const struct holder *from,
                     bson_error_t *failure)
{
    bson_t *ours = our_document(lease);
    int code = change(
        leases, BCON_NEW("_id", BCON_UTF8(lease_id), "token", BCON_UTF8(from->token), "beat", BCON_INT64(from->beat)),
        BCON_NEW("$set", BCON_DOCUMENT(ours)), failure);
    bson_destroy(ours);
    return code;
}

static bool is_dead(struct mongo_lease *lease, const struct holder *holder)
{
    char place[PLACE_SIZE];
    this_place(place);
    if (strcmp(place, holder->place) == 0 && holder->began && began(holder->pid) != holder->began)
        return true;
    if (strcmp(lease->seen_token, holder->token) || lease->seen_beat != holder->beat) {
        memcpy(lease->seen_token, holder->token, sizeof lease->seen_token);
        lease->seen_beat = holder->beat;
        lease->seen = now_ms();
    }
    return now_ms() - lease->seen >= LEASE_SECONDS * 1000;
}

static int whose(const struct holder *holder, bool there, int code, char *text)
{
    if (there)
        return explain(text, code, "the cluster manager on %s (pid %lld) %s", holder->host, (long long)holder->pid,
                       code == -ESTALE ? "has taken it over" : "uses it; this one takes over when that one has ended");
    return explain(text, code,
                   code == -ESTALE ? "this manager's document in flyt_lease has been removed"
                                   : "another cluster manager has just taken it");
}

static int renew(struct mongo_lease *lease, mongoc_collection_t *leases, bson_error_t *failure, char *text)
{
    struct holder holder = { 0 };
    bool there = false;
    uint64_t now = now_ms();
    if (now - lease->renewed < LEASE_RENEW_MS)
        return 0;
    int code = change(leases, BCON_NEW("_id", BCON_UTF8(lease_id), "token", BCON_UTF8(lease->token)),
                      BCON_NEW("$set", "{", "beat", BCON_INT64(lease->beat + 1), "}"), failure);
    if (code == 0) {
        lease->beat++;
        lease->renewed = now;           /* before it was asked: the other side counts from then at the earliest */
    }
    if (code != -EAGAIN)
        return code;
    lease->held = false;
    lease->lost = true;
    (void)look(leases, &holder, &there, failure);
    return whose(&holder, there, -ESTALE, text);
}

int mongo_lease_hold(struct mongo_lease *lease, mongoc_collection_t *leases, bson_error_t *failure, char *text)
{
    struct holder holder = { 0 };
    bool there = false;
    if (lease->lost)
        return explain(text, -ESTALE, "another cluster manager has taken it over");
    if (lease->held)
        return renew(lease, leases, failure, text);
    uint64_t now = now_ms();
    int code = look(leases, &holder, &there, failure);
    if (code)
        return code;
    if (!there)
        code = insert(lease, leases, failure);
    else if (strcmp(holder.token, lease->token) == 0)
        code = 0;                       /* the answer to our insertion was lost */
    else
        code = is_dead(lease, &holder) ? take_over(lease, leases, &holder, failure) : -EAGAIN;
    if (code == -EAGAIN)
        return whose(&holder, there, -EBUSY, text);
    if (code == 0) {
        lease->held = true;
        lease->renewed = now;
    }
    return code;
}

void mongo_lease_release(struct mongo_lease *lease, mongoc_collection_t *leases)
{
    bson_t *match = BCON_NEW("_id", BCON_UTF8(lease_id), "token", BCON_UTF8(lease->token));
    if (lease->held)
        (void)mongoc_collection_delete_one(leases, match, NULL, NULL, NULL);
    lease->held = false;
    bson_destroy(match);
}
