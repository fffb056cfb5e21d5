/* text.c: see text.h. */
#include "cpu/server/call/text.h"

#include "cpu/common/fd.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct text {
    pthread_mutex_t lock;
    struct { int fd; off_t taken; } file[2];      /* of fds 1 and 2 */
};

struct text *text_capture(int *log_fd)
{
    struct text *text = calloc(1, sizeof *text);
    int saved = fcntl(2, F_DUPFD_CLOEXEC, FD_FIRST);
    if (!text || saved < 0)
        goto failed;
    text->file[0].fd = memfd_create("flyt-stdout", MFD_CLOEXEC);
    text->file[1].fd = memfd_create("flyt-stderr", MFD_CLOEXEC);
    for (int i = 0; i < 2; i++)
        if (text->file[i].fd < 0 || fcntl(text->file[i].fd, F_SETFL, O_APPEND) < 0)
            goto failed_files;
    fflush(NULL);
    if (dup2(text->file[0].fd, 1) < 0 || dup2(text->file[1].fd, 2) < 0)
        goto failed_files;
    pthread_mutex_init(&text->lock, NULL);
    *log_fd = saved;
    return text;

failed_files:
    for (int i = 0; i < 2; i++)
        if (text->file[i].fd > 0)
            close(text->file[i].fd);
failed:
    if (saved >= 0)
        close(saved);
    free(text);
    return NULL;
}

/* One piece of file i, appended to the head. False: nothing more there, or no memory (it stays for later). */
static int text_take(struct text *text, int i, flyt_head *head)
{
    struct stat status;
    if (fstat(text->file[i].fd, &status) < 0 || status.st_size <= text->file[i].taken)
        return 0;
    size_t size = (size_t)(status.st_size - text->file[i].taken);
    if (size > FLYT_MAX_TEXT)
        size = FLYT_MAX_TEXT;
    if (!head->printed.printed_val) {
        head->printed.printed_val = calloc(FLYT_MAX_TEXTS, sizeof *head->printed.printed_val);
        if (!head->printed.printed_val)
            return 0;
    }
    char *bytes = malloc(size);
    ssize_t n = bytes ? pread(text->file[i].fd, bytes, size, text->file[i].taken) : -1;
    if (n <= 0) {
        free(bytes);
        return 0;
    }
    flyt_text *piece = &head->printed.printed_val[head->printed.printed_len++];
    piece->fd = i + 1;
    piece->bytes.bytes_val = bytes;
    piece->bytes.bytes_len = (u_int)n;
    text->file[i].taken += n;
    /* Whole pages only are freed by the system; a rest of a page is freed with the next piece. */
    fallocate(text->file[i].fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, text->file[i].taken);
    return 1;
}

void text_collect(struct text *text, flyt_head *head)
{
    fflush(stdout);
    pthread_mutex_lock(&text->lock);
    for (int i = 0; i < 2; i++)
        while (head->printed.printed_len < FLYT_MAX_TEXTS && text_take(text, i, head))
            ;
    pthread_mutex_unlock(&text->lock);
}

void text_free(flyt_head *head)
{
    for (u_int i = 0; i < head->printed.printed_len; i++)
        free(head->printed.printed_val[i].bytes.bytes_val);
    free(head->printed.printed_val);
    head->printed.printed_val = NULL;
    head->printed.printed_len = 0;
}
