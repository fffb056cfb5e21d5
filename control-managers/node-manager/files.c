/*
 * files.c: the files in a GPU server's folder, beside its state (state.c): the keys of tickets that it accepts, what it
 * says on its output, and its log. A server prints its addresses on its output, a file, so that the next node manager
 * can read them too. Each process of a server begins a log of its own; that of the process before stays beside it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control-managers/node-manager/node.h"
#include "cpu/common/explain.h"
#include "cpu/common/log.h"

enum { MAX_LOG = 16 << 20, CUT_LOG = 256 << 10, MAX_LINES = 1000 };

#define KEPT_END          ".log"
#define KEPT_END_PREVIOUS ".log.1"

/* ---- what it is given ---- */

static int files_open_there(const struct node_server *server, const char *name)
{
    char path[NODE_PATH_SIZE];
    return state_folder(server, name, path) == 0 ? open(path, O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
                                                 : -1;
}

static void set_aside(const struct node_server *server, const char *name)
{
    char path[NODE_PATH_SIZE];
    int folder = state_folder(server, "", path) == 0 ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    int failure = folder < 0 ? -errno : sweep_aside(server->node, folder, name);
    if (failure)
        log_warning("event=file-left server=%llu name=%s why=\"%s\"", (unsigned long long)server->id, name,
                    strerror(-failure));
    if (folder >= 0)
        close(folder);
}

int files_open(const struct node_server *server, const char *name, bool anew)
{
    char path[NODE_PATH_SIZE];
    struct stat st;
    if (state_folder(server, name, path) != 0)
        return -1;
    if (lstat(path, &st) == 0 && (anew || st.st_size > MAX_LOG))
        set_aside(server, name); /* cutting a large one would take long */
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_APPEND | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || fcntl(fd, F_SETFL, O_APPEND) != 0)) {
        close(fd);
        errno = EPERM;
        return -1;
    }
    return fd;
}

/* A file that a server appends to: what is too long is cut to its end. */
static void bound_file(const struct node_server *server, const char *name)
{
    static char kept[CUT_LOG];
    struct stat st;
    int fd = files_open_there(server, name);
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > MAX_LOG) {
        ssize_t size = pread(fd, kept, sizeof kept, st.st_size - (off_t)sizeof kept);
        if (ftruncate(fd, 0) != 0 || (size > 0 && write(fd, kept, (size_t)size) != size))
            log_warning("event=log-long server=%llu why=\"%s\"", (unsigned long long)server->id, strerror(errno));
        else
            log_info("event=log-cut server=%llu file=%s", (unsigned long long)server->id, name);
    }
    if (fd >= 0)
        close(fd);
}

void files_bound(const struct node_server *server)
{
    bound_file(server, LOG_NAME);
    bound_file(server, LOG_PREVIOUS); /* something of the process before may be left, and write on */
    bound_file(server, "output");
}

void files_turn_log(const struct node_server *server)
{
    char now[NODE_PATH_SIZE], before[NODE_PATH_SIZE];
    struct stat st;
    if (state_folder(server, LOG_NAME, now) != 0 || state_folder(server, LOG_PREVIOUS, before) != 0 ||
        lstat(now, &st) != 0 || !st.st_size)
        return;
    if (lstat(before, &st) == 0)
        set_aside(server, LOG_PREVIOUS);
    if (rename(now, before) != 0)
        log_warning("event=log-not-turned server=%llu why=\"%s\"", (unsigned long long)server->id, strerror(errno));
}

/* ---- what is kept of it ---- */

bool files_kept_folder(const struct node_manager *node, char path[NODE_PATH_SIZE])
{
    const char *end = strrchr(node->servers_path, '/'); /* beside the folder of servers */
    return snprintf(path, NODE_PATH_SIZE, "%.*s/logs", end ? (int)(end - node->servers_path) : 0,
                    node->servers_path) < NODE_PATH_SIZE;
}

static bool ends_in(const char *name, const char *end)
{
    size_t length = strlen(name), wanted = strlen(end);
    return length > wanted && strcmp(name + length - wanted, end) == 0;
}

uint64_t files_kept_id(const char *name, bool previous)
{
    char *end;
    unsigned long long id = strtoull(name, &end, 10);
    return *end == '-' && ends_in(name, previous ? KEPT_END_PREVIOUS : KEPT_END) ? id : 0;
}

static int by_number(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* The server, of the kept ones, up to which logs go: the oldest, those of the lowest ids. 0: none. */
static uint64_t last_to_go(DIR *folder, size_t keep)
{
    uint64_t *ids = NULL, id = 0;
    size_t count = 0, room = 0, different = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (!(id = strtoull(entry->d_name, NULL, 10)))
            continue;
        if (count == room) {
            uint64_t *more = realloc(ids, (room += 256) * sizeof *ids);
            if (!more)
                break;
            ids = more;
        }
        ids[count++] = id;
    }
    if (count)
        qsort(ids, count, sizeof *ids, by_number);
    for (size_t i = 0; i < count; i++)
        if (!i || ids[i] != ids[i - 1])
            ids[different++] = ids[i];
    id = different > keep ? ids[different - keep - 1] : 0;
    free(ids);
    return id;
}

static void prune_logs(const char *path, size_t keep)
{
    DIR *folder = opendir(path);
    uint64_t last = folder ? last_to_go(folder, keep) : 0;
    if (last)
        rewinddir(folder);
    for (struct dirent *entry; last && (entry = readdir(folder));) {
        uint64_t id = strtoull(entry->d_name, NULL, 10);
        if (id && id <= last)
            unlinkat(dirfd(folder), entry->d_name, 0);
    }
    if (folder)
        closedir(folder);
}

/* Copies the end of the file into FOLDER/<id>-<vm>END. It is not renamed: a process that is left of the server may
   write on. */
static bool keep_end(const struct node_server *server, const char *name, const char *folder, const char *end,
                     char kept_as[NODE_PATH_SIZE])
{
    const uint64_t most = server->node->config->log_size;
    struct stat st;
    bool kept = false;
    int from = files_open_there(server, name), to = -1;
    char *text = from >= 0 && fstat(from, &st) == 0 && S_ISREG(st.st_mode) && st.st_size ? malloc(most) : NULL;
    if (text && snprintf(kept_as, NODE_PATH_SIZE, "%s/%llu-%s%s", folder, (unsigned long long)server->id, server->vm,
                         end) < NODE_PATH_SIZE)
        to = open(kept_as, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (to >= 0) {
        ssize_t size = pread(from, text, most, st.st_size > (off_t)most ? st.st_size - (off_t)most : 0);
        kept = size > 0 && write(to, text, (size_t)size) == size;
        close(to);
        if (!kept)
            unlink(kept_as);
    }
    if (from >= 0)
        close(from);
    free(text);
    return kept;
}

bool files_keep_log(const struct node_server *server, char kept_as[NODE_PATH_SIZE])
{
    const int64_t most = server->node->config->logs_kept;
    char folder[NODE_PATH_SIZE], previous[NODE_PATH_SIZE], error[EXPLAIN_SIZE];
    if (!files_kept_folder(server->node, folder) || (most && state_make_folder(folder, 0700, error) != 0))
        return false;
    if (most)
        keep_end(server, LOG_PREVIOUS, folder, KEPT_END_PREVIOUS, previous);
    bool kept = most && keep_end(server, LOG_NAME, folder, KEPT_END, kept_as);
    prune_logs(folder, (size_t)most);
    return kept;
}

void server_write_keys(struct node_server *server)
{
    const struct node_manager *node = server->node;
    char text[CTL_MAX_KEY * 2 + CTL_MAX_KEY / 32 + 1], error[EXPLAIN_SIZE];
    size_t size = 0;
    if (!node->keys_size)
        return;                         /* not registered yet: those that it has hold */
    for (size_t i = 0; i < node->keys_size; i++)
        size += (size_t)snprintf(text + size, sizeof text - size, "%02x%s", node->keys[i], i % 32 == 31 ? "\n" : "");
    if (own_write(server, "keys", text, size, error) != 0)
        log_error("event=keys-unwritten server=%llu why=\"%s\": it accepts the tickets of old keys only",
                  (unsigned long long)server->id, error);
}

/* ---- what it says ---- */

/* The last line of its log, for messages. */
/* The last line about an error, else the last line: what follows an error often says only that a process has
   ended. Cuts `text` behind that line. */
static const char *last_cause(char *text)
{
    char *last = text, *cause = NULL;
    for (char *next = text; next;) {
        last = next;
        next = strchr(last, '\n');
        if (next)
            *next++ = '\0';
        if (strstr(last, " error: "))
            cause = last;
    }
    return cause ? cause : last;
}

void files_last_words(const struct node_server *server, char *out, size_t size)
{
    char path[NODE_PATH_SIZE], text[2048];
    *out = '\0';
    int fd =
        state_folder(server, LOG_NAME, path) == 0 ? open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    off_t end = lseek(fd, 0, SEEK_END), from = end > (off_t)sizeof text - 1 ? end - ((off_t)sizeof text - 1) : 0;
    ssize_t n = pread(fd, text, sizeof text - 1, from);
    close(fd);
    while (n > 0 && text[n - 1] == '\n')
        n--;
    if (n <= 0)
        return;
    text[n] = '\0';
    snprintf(out, size, "%.500s", last_cause(text));
    protocol_text_clean(out);
}

static bool add_address(struct node_server *server, const char *uri)
{
    const struct node_manager *node = server->node;
    char path[NODE_PATH_SIZE];
    if (server->address_count == CTL_MAX_ADDRESSES)
        return false;
    char *out = server->addresses[server->address_count];
    if (strncmp(uri, "unix://", 7) == 0) {
        /* Programs are not led to a socket of somebody else. */
        if (own_folder(server, "s", path) != 0 || strncmp(uri + 7, path, strcspn(uri + 7, "?")) != 0 ||
            strlen(path) != strcspn(uri + 7, "?"))
            return false;
        snprintf(out, sizeof server->addresses[0], "%.*s", (int)strcspn(uri, "?"), uri);
    } else {
        /* The port is that of the socket that we made, whatever the server says; behind it, of tls://, is the
           fingerprint of the certificate that this server has made for itself. */
        const char *port = strrchr(uri, ':'), *more = port ? port + 1 + strspn(port + 1, "0123456789") : "";
        char own[16];
        snprintf(own, sizeof own, ":%u", server->port);
        if (!server->port) /* it has no such socket of ours, and others are connected to none but those */
            return false;
        int length = snprintf(out, sizeof server->addresses[0],
                              strchr(node->advertise, ':') ? "%.6s[%s]%s%s" : "%.6s%s%s%s", uri, node->advertise, own,
                              more);
        if (length >= (int)sizeof server->addresses[0]) {
            log_error("event=address-long server=%llu why=\"%s is too long a name for an address\": set "
                      "virt-server.advertise-address",
                      (unsigned long long)server->id, node->advertise);
            return false;
        }
    }
    server->address_count++;
    return true;
}

/* Whether it has said where it listens, and what its driver shows; it says all at once, when its first worker is
 * ready. */
bool files_read_addresses(struct node_server *server)
{
    static const char said[] = "listening on ";
    unsigned shown;
    char path[NODE_PATH_SIZE], line[CTL_MAX_URI + 64];
    int fd =
        state_folder(server, "output", path) == 0 ? open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    server->address_count = 0;
    server->shown_sms = 0;
    if (!file)
        return false;
    bool whole = true;
    for (unsigned count = 0; count < MAX_LINES && fgets(line, sizeof line, file); count++) {
        size_t size = strlen(line);
        whole = size && line[size - 1] == '\n';
        if (!whole)
            break;
        line[size - 1] = '\0';
        if (strncmp(line, said, sizeof said - 1) == 0)
            add_address(server, line + sizeof said - 1);
        else if (sscanf(line, "device multiprocessors %u", &shown) == 1)
            server->shown_sms = shown;
    }
    fclose(file);
    return whole && server->address_count;
}
