/*
 * web: a fuzz target for what flyt-monitor takes from callers and files: the heads Host and Authorization, tokens, and
 * the cut of its texts to one VM. The first byte says which. What a VM is given holds nothing of another VM.
 */
#include "control-managers/monitor/access.h"
#include "control-managers/monitor/texts.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void heads(const char *text)
{
    static const char *const hosts[] = { "monitor.example" };
    struct access_rights rights;
    if (access_host_fits(text, hosts, 1) && !strcasestr(text, "localhost") && !strstr(text, "127.0.0.1") &&
        !strstr(text, "[::1]") && !strcasestr(text, "monitor.example"))
        abort();
    if (access_of_role(text, true, &rights) && rights.cluster && strcmp(text, "viewer") != 0)
        abort();
}

static void tokens(const char *text, size_t size)
{
    char path[] = "/tmp/flyt-fuzz-XXXXXX", error[256];
    struct access_tokens *all = NULL;
    struct access_rights rights;
    int fd = mkstemp(path);
    if (fd < 0 || write(fd, text, size) != (ssize_t)size || access_tokens_load(path, &all, error) != 0)
        all = NULL;
    if (fd >= 0)
        close(fd);
    unlink(path);
    access_by_token(all, text, &rights);
    access_tokens_free(all);
}

static void samples(const char *bytes, size_t size)
{
    char *copy = malloc(size + 1);
    memcpy(copy, bytes, size);
    struct text *text = text_make(copy, size), *own = text_samples_of_vm(text, "one");
    size_t left;
    const char *at = text_bytes(own, &left);
    while (left) {
        const char *end = memchr(at, '\n', left);
        size_t line = end ? (size_t)(end - at) + 1 : left;
        if (*at != '#' && !memmem(at, line, "vm=\"one\"", 8))
            abort();
        at += line;
        left -= line;
    }
    text_release(own);
    text_release(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char text[4096];
    if (size < 2 || size >= sizeof text)
        return 0;
    memcpy(text, bytes + 1, size - 1);
    text[size - 1] = '\0';
    switch (bytes[0] % 3) {
    case 0: heads(text); break;
    case 1: tokens(text, size - 1); break;
    default: samples(text, size - 1); break;
    }
    return 0;
}
