/*
 * logs.c: pieces of what GPU servers have written, for administrators (NODE_ORDER_LOG). files.c says which files there
 * are: of a server that runs, `log` and `log.1` in its folder; of one that has ended, what is kept of them.
 *
 * Files are read in a thread of libuv's, since a disk may be slow: at most READS_MOST at a time. What is read is what a
 * tenant's programs wrote, any bytes; whoever shows it makes it fit to be shown.
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

enum { READS_MOST = 8 };

struct log_read {
    struct log_read *next;
    struct node_manager *node; /* NULL: it has closed meanwhile */
    uv_work_t work;
    uint64_t order;
    ctl_log_wish wish;
    bool ended;                  /* the server has */
    int book;                    /* a descriptor of its communicators' book; -1: that is not wished, or there is none */
    char folder[NODE_PATH_SIZE]; /* of a server that runs: its own; else that of what is kept */
    /* Of the thread, until it has ended. */
    ctl_code code;
    char why[EXPLAIN_SIZE];
    uint64_t file, from, size;
    size_t length;
    char text[CTL_MAX_LOG];
};

/* ---- in the thread ---- */

/* -1: there is none. */
static int open_kept(const struct log_read *read)
{
    struct dirent *entry;
    int fd = -1;
    DIR *folder = opendir(read->folder);
    while (folder && fd < 0 && (entry = readdir(folder)))
        if (files_kept_id(entry->d_name, read->wish.previous) == read->wish.server)
            fd = openat(dirfd(folder), entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (folder)
        closedir(folder);
    return fd;
}

static int open_log(const struct log_read *read)
{
    char path[NODE_PATH_SIZE];
    if (read->wish.previous == CTL_LOG_COMMS)
        return read->book;
    if (read->ended)
        return open_kept(read);
    return snprintf(path, sizeof path, "%s/%s", read->folder, read->wish.previous ? LOG_PREVIOUS : LOG_NAME) <
                   NODE_PATH_SIZE
               ? open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
               : -1;
}

/* Where the last `lines` lines of the file begin. A line without an end is one. */
static uint64_t last_lines(int fd, uint64_t size, uint32_t lines)
{
    char part[4096];
    uint64_t at = size;
    while (at) {
        uint64_t from = at > sizeof part ? at - sizeof part : 0;
        ssize_t count = pread(fd, part, (size_t)(at - from), (off_t)from);
        if (count != (ssize_t)(at - from))
            return at; /* it was cut meanwhile */
        for (; count > 0; count--)
            if (part[count - 1] == '\n' && from + (uint64_t)count != size && lines-- == 1)
                return from + (uint64_t)count;
        at = from;
    }
    return 0;
}

/* A kept log has its old offsets, if it was kept as a whole. */
static uint64_t first_byte(const struct log_read *read, int fd)
{
    const ctl_log_wish *wish = &read->wish;
    if (wish->lines)
        return last_lines(fd, read->size, wish->lines);
    if (wish->from == CTL_LOG_END)
        return read->size;
    bool other = wish->file && wish->file != read->file && !read->ended;
    return other || wish->from > read->size ? 0 : wish->from;
}

static void read_piece(uv_work_t *work)
{
    struct log_read *read = work->data;
    struct stat st;
    int fd = open_log(read);
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        read->code = CTL_NOT_FOUND;
        snprintf(read->why, sizeof read->why, "GPU server %llu has %s on this node",
                 (unsigned long long)read->wish.server,
                 read->wish.previous == CTL_LOG_COMMS ? "no communicators"
                 : read->wish.previous                ? "no log of a process before its last one"
                                                      : "no log");
    } else {
        read->file = st.st_ino;
        read->size = (uint64_t)st.st_size;
        read->from = first_byte(read, fd);
        ssize_t length = pread(fd, read->text, sizeof read->text, (off_t)read->from);
        read->length = length > 0 ? (size_t)length : 0;
        if (length < 0)
            read->code = explain(read->why, CTL_INTERNAL, "reading it: %s", strerror(errno));
    }
    if (fd >= 0)
        close(fd);
}

/* ---- in the loop ---- */

static void report(struct node_manager *node, const struct log_read *read)
{
    node_report_body body = { .kind = NODE_REPORT_LOG };
    body.node_report_body_u.log = (node_log){
        .number = read->order,
        .status = { read->code, (char *)(uintptr_t)read->why },
        .piece = { .file = read->file,
                   .from = read->from,
                   .size = read->size,
                   .ended = read->ended,
                   .text = { (u_int)read->length, (char *)(uintptr_t)read->text } },
    };
    if (node->registered) /* else nobody waits for it any more, and it is not to wait */
        reports_add(node, &body);
}

static void was_read(uv_work_t *work, int status)
{
    struct log_read *read = work->data;
    struct node_manager *node = read->node;
    if (node) {
        struct log_read **at = &node->log_reads;
        while (*at != read)
            at = &(*at)->next;
        *at = read->next;
        if (status)
            read->code = explain(read->why, CTL_INTERNAL, "it was not read");
        report(node, read);
    }
    free(read);
}

static size_t reads_under_way(const struct node_manager *node)
{
    size_t count = 0;
    for (const struct log_read *read = node->log_reads; read; read = read->next)
        count++;
    return count;
}

void log_begin(struct node_manager *node, uint64_t order, const ctl_log_wish *wish)
{
    const struct node_server *server = server_find(node, wish->server);
    struct log_read *read = calloc(1, sizeof *read);
    if (!read)
        return; /* the asker's time runs out */
    read->order = order;
    read->wish = *wish;
    read->ended = !server;
    read->book = server && wish->previous == CTL_LOG_COMMS ? own_open_file(server, COMM_BOOK_NAME) : -1;
    read->node = node;
    read->work.data = read;
    ctl_code code = CTL_OK;
    if (reads_under_way(node) >= READS_MOST)
        code = explain(read->why, CTL_BUSY, "%d logs of this node are being read: try again", READS_MOST);
    else if (server ? state_folder(server, "", read->folder) != 0 : !files_kept_folder(node, read->folder))
        code = explain(read->why, CTL_INTERNAL, "the path of its folder is too long");
    else if (uv_queue_work(loop_uv(node->loop), &read->work, read_piece, was_read) != 0)
        code = explain(read->why, CTL_INTERNAL, "no thread can be had");
    if (code != CTL_OK) { /* else all but `next` is the thread's now */
        if (read->book >= 0)
            close(read->book);
        read->code = code;
        report(node, read);
        free(read);
        return;
    }
    read->next = node->log_reads;
    node->log_reads = read;
}

void logs_forget_all(struct node_manager *node)
{
    for (struct log_read *read = node->log_reads; read; read = read->next)
        read->node = NULL;
    node->log_reads = NULL;
}
