/*
 * ticket.c: the server's side of tickets. The listener is shown a pass, which anybody on the network may have seen: it
 * lets its bearer to a worker, TICKET_KNOCKS times at most (a program that was stopped while it connected tries again,
 * and one that moves and does not come to rest connects anew for each attempt: 12 in the minute that a ticket lives).
 * The worker is shown the whole ticket, of the same pass, which nobody else has.
 *
 * What has to be known by all workers, and after a restart, lies in files:
 *   STATE/nonces/<hex>         a ticket that was used, empty; its modification time is when the ticket expires.
 *                              Creating it exclusively is what makes a ticket good for one connection
 *   STATE/revoked/<id>         the node manager's word: tickets for this program from before its modification time
 *                              are no longer valid
 *   STATE/programs/<id>.<pid>  the worker that serves a program, for the node manager; in it the error that made CUDA
 *                              useless for the program, if there was one
 *   STATE/programs/<id>.<pid>.ended  of a worker that has ended, when the file was changed last
 */
#include "cpu/server/listener/ticket.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cpu/common/ticket.h"
#include "cpu/common/log.h"
#include "cpu/rpc/call/knock.h"
#include "cpu/server/tenant/tenant.h"

enum {
    TICKET_KEY_TEXT = 2 * TICKET_KEY_SIZE,
    TICKET_ERROR = 1024,
    TICKET_MAX_NONCES = 65536,
    TICKET_KNOCKS = 16
};
_Static_assert((int)TICKET_PASS_SIZE == TICKET_NONCE_SIZE, "a pass is known by its nonce");
_Static_assert((int)RPC_KNOCK_SECRET == TICKET_SECRET_SIZE, "what a client keeps back is the secret");

static uint8_t expected[TICKET_PASS_SIZE];
static bool expects;

int ticket_configure(const char *keys, const char *state, const char *server)
{
    return setenv("FLYT_TICKET_KEYS", keys, 1) || (state && setenv("FLYT_TICKET_STATE", state, 1)) ||
           (server && setenv("FLYT_TICKET_SERVER", server, 1)) ? -1 : 0;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* How many keys; -errno. A line that is no key ends the list. */
static int keys_read(const char *path, uint8_t keys[TICKET_MAX_KEYS][TICKET_KEY_SIZE])
{
    FILE *file = fopen(path, "re");
    char line[TICKET_KEY_TEXT + 2];
    int count = 0;
    if (!file)
        return -errno;
    while (count < TICKET_MAX_KEYS && fgets(line, sizeof line, file) && strlen(line) >= TICKET_KEY_TEXT) {
        int i = 0;
        for (; i < TICKET_KEY_SIZE; i++) {
            int high = hex_digit(line[2 * i]), low = hex_digit(line[2 * i + 1]);
            if (high < 0 || low < 0)
                break;
            keys[count][i] = (uint8_t)(high << 4 | low);
        }
        if (i < TICKET_KEY_SIZE)
            break;
        count++;
    }
    fclose(file);
    return count;
}

/* Removes what has expired. Returns how many are left. */
static int nonces_clean(const char *folder, int64_t now)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    struct stat st;
    int left = 0;
    if (!dir)
        return 0;
    while ((entry = readdir(dir)))
        if (entry->d_name[0] != '.' && fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
            if (st.st_mtim.tv_sec < now)
                unlinkat(dirfd(dir), entry->d_name, 0);
            else
                left++;
        }
    closedir(dir);
    return left;
}

/* 0 the first time; -EEXIST: it was used; other: it cannot be remembered. */
static int nonce_use(const char *state, const struct ticket *ticket, int64_t now)
{
    char folder[3072], path[4096], text[2 * TICKET_NONCE_SIZE + 1];
    for (int i = 0; i < TICKET_NONCE_SIZE; i++)
        snprintf(text + 2 * i, 3, "%02x", ticket->nonce[i]);
    snprintf(folder, sizeof folder, "%s/nonces", state);
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return -errno;
    if (nonces_clean(folder, now / 1000000) >= TICKET_MAX_NONCES)
        return -ENOSPC;
    snprintf(path, sizeof path, "%s/%s", folder, text);
    int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    /* Kept a little longer than it is accepted. */
    time_t until = (time_t)(ticket->expires / 1000000 + 2 * TICKET_CLOCK_SKEW_SECONDS);
    struct timespec times[2] = { { .tv_sec = until }, { .tv_sec = until } };
    int r = futimens(fd, times) == 0 ? 0 : -errno;
    close(fd);
    return r;
}

/* Whether the program's tickets have been revoked. */
static bool program_revoked(const char *state, const struct ticket *ticket, int64_t now)
{
    int64_t counts = (ticket->expires - ticket->issued) / 1000000 + 2 * TICKET_CLOCK_SKEW_SECONDS;
    char folder[3072], path[4096];
    snprintf(folder, sizeof folder, "%s/revoked", state);
    nonces_clean(folder, now / 1000000 - counts);
    snprintf(path, sizeof path, "%s/%llu", folder, (unsigned long long)ticket->program);
    struct stat mark;
    return stat(path, &mark) == 0 && ticket->issued / 1000000 <= mark.st_mtim.tv_sec;
}

static void program_note(const char *state, uint64_t program)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/programs", state);
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        log_warning("event=ticket-not-recorded path=%s why=\"%s\"", path, strerror(errno));
        return;
    }
    snprintf(path, sizeof path, "%s/programs/%llu.%d", state, (unsigned long long)program, (int)getpid());
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0)
        log_warning("event=ticket-not-recorded path=%s why=\"%s\"", path, strerror(errno));
    else
        tenant_fault_file(fd);
}

/* More files than this were not made by us. */
enum { PROGRAMS_MOST = 16384 };

void ticket_ended(pid_t worker)
{
    const char *state = getenv("FLYT_TICKET_STATE");
    char folder[4096], ended[NAME_MAX + 8];
    struct dirent *entry;
    snprintf(folder, sizeof folder, "%s/programs", state ? state : "");
    DIR *dir = state ? opendir(folder) : NULL;
    for (int i = 0; dir && i < PROGRAMS_MOST && (entry = readdir(dir)); i++) {
        unsigned long long program;
        int pid, length = 0;
        if (sscanf(entry->d_name, "%llu.%d%n", &program, &pid, &length) != 2 || pid != worker || entry->d_name[length])
            continue;
        snprintf(ended, sizeof ended, "%s.ended", entry->d_name);
        if (utimensat(dirfd(dir), entry->d_name, NULL, AT_SYMLINK_NOFOLLOW) != 0 ||
            renameat(dirfd(dir), entry->d_name, dirfd(dir), ended) != 0)
            log_debug("event=end-not-recorded worker=%d why=\"%s\"", (int)worker, strerror(errno));
    }
    if (dir)
        closedir(dir);
}

bool ticket_wanted(void) { return getenv("FLYT_TICKET_KEYS") != NULL; }

void ticket_expect(const uint8_t pass[TICKET_PASS_SIZE])
{
    memcpy(expected, pass, sizeof expected);
    expects = true;
}

static int64_t microseconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

typedef int verify_function(const uint8_t (*)[TICKET_KEY_SIZE], size_t, const uint8_t *, size_t, int64_t, uint64_t,
                            struct ticket *, char *);

/* What a pass and a ticket have in common. */
static int look_at(const void *bytes, size_t size, int64_t now, verify_function *verify, struct ticket *ticket,
                   char *refusal)
{
    const char *path = getenv("FLYT_TICKET_KEYS"), *state = getenv("FLYT_TICKET_STATE"),
               *number = getenv("FLYT_TICKET_SERVER");
    uint8_t keys[TICKET_MAX_KEYS][TICKET_KEY_SIZE];
    char error[TICKET_ERROR] = "";
    int count = keys_read(path, keys);
    if (count <= 0) {
        snprintf(refusal, TICKET_REFUSAL_SIZE, "the server has no key to check tickets with");
        log_error("event=no-ticket-key path=%s why=\"%s\": every client is refused", path,
                  count < 0 ? strerror(-count) : "no key in it");
        return -1;
    }
    uint64_t server = number ? strtoull(number, NULL, 10) : 0;
    if (verify((const uint8_t(*)[TICKET_KEY_SIZE])keys, (size_t)count, bytes, size, now, server, ticket, error) != 0) {
        snprintf(refusal, TICKET_REFUSAL_SIZE, "the ticket is not accepted: %.200s", error);
        return -1;
    }
    if (state && program_revoked(state, ticket, now)) {
        snprintf(refusal, TICKET_REFUSAL_SIZE,
                 "the ticket is no longer valid: its program has ended, or its VM has a new secret");
        return -1;
    }
    return 0;
}

int ticket_check_pass(const void *bytes, size_t size, uint8_t pass[TICKET_PASS_SIZE], uint64_t *program, char *refusal)
{
    static struct ticket_guard *guard; /* of the listener's only thread */
    struct ticket ticket;
    char error[TICKET_ERROR] = "";
    int64_t now = microseconds();
    if (!ticket_wanted())
        return 0;
    if (look_at(bytes, size, now, ticket_verify_pass, &ticket, refusal) != 0)
        return -1;
    if (!guard)
        guard = ticket_guard_create(TICKET_MAX_NONCES);
    if (!guard || ticket_guard_use(guard, &ticket, TICKET_KNOCKS, now, error) != 0) {
        snprintf(refusal, TICKET_REFUSAL_SIZE, "the ticket is not accepted: %.200s", guard ? error : "no memory");
        return -1;
    }
    memcpy(pass, ticket.nonce, TICKET_PASS_SIZE);
    *program = ticket.program;
    return 0;
}

int ticket_check(const void *bytes, size_t size, char *refusal)
{
    const char *state = getenv("FLYT_TICKET_STATE");
    struct ticket ticket;
    int64_t now = microseconds();
    if (!ticket_wanted())
        return 0;
    if (!size) {
        snprintf(refusal, TICKET_REFUSAL_SIZE,
                 "this server belongs to a cluster and wants a ticket: start the program on a VM "
                 "whose flyt-client-manager runs, without FLYT_SERVER");
        return -1;
    }
    if (look_at(bytes, size, now, ticket_verify, &ticket, refusal) != 0)
        return -1;
    if (expects && memcmp(expected, ticket.nonce, sizeof expected) != 0) {
        snprintf(refusal, TICKET_REFUSAL_SIZE, "the ticket is not accepted: it is not the one whose pass was shown");
        return -1;
    }
    int used = state ? nonce_use(state, &ticket, now) : 0;
    if (used) {
        snprintf(refusal, TICKET_REFUSAL_SIZE,
                 used == -EEXIST ? "the ticket has been used already; each is good for one connection"
                                 : "the server cannot remember that the ticket was used: %s",
                 strerror(-used));
        return -1;
    }
    if (state)
        program_note(state, ticket.program);
    log_info("event=ticket-accepted program=%llu vm=%s", (unsigned long long)ticket.program, ticket.tenant);
    return 0;
}
