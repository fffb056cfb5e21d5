/* cmd_checkpoint.c: what is in the file of a checkpoint (cpu/checkpoint). All of it is read and checked. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "control-managers/flytctl/flytctl.h"
#include "cpu/checkpoint/checkpoint.h"

struct kind_seen {
    char name[128];
    uint64_t objects, parts, bytes;
    bool named;
};
struct checkpoint_seen {
    struct kind_seen kinds[CHECKPOINT_KINDS_MOST];
    uint64_t parts, bytes;
    bool hashed;
};

static void take_facts(json_t *facts, const struct checkpoint_frame *frame)
{
    static const char *const names[] = { "version", "flyt", "created", "host", "pid", "executable", "devices",
                                         "driver", "window", "window_size", "granularity" };
    char value[1024];
    for (size_t i = 0; i < COUNT(names); i++)
        if (checkpoint_fact(frame, names[i], value, sizeof value))
            json_object_set_new(facts, names[i], json_text(value));
}

static void take_frame(struct checkpoint_seen *seen, json_t *facts, const struct checkpoint_frame *frame)
{
    struct kind_seen *kind = &seen->kinds[frame->kind % CHECKPOINT_KINDS_MOST];
    switch (frame->type) {
    case CHECKPOINT_FACTS:
        take_facts(facts, frame);
        break;
    case CHECKPOINT_KIND:
        snprintf(kind->name, sizeof kind->name, "%.*s", (int)(frame->size < 127 ? frame->size : 127),
                 (const char *)frame->data);
        kind->objects = frame->object;
        kind->named = true;
        break;
    case CHECKPOINT_PART:
        kind->parts++;
        kind->bytes += frame->size;
        seen->bytes += frame->size;
        break;
    case CHECKPOINT_END:
        seen->parts = frame->object;
        seen->hashed = frame->size > 0;
        break;
    }
}

/* Up to its end, and nothing may follow. */
static int read_file(struct flytctl *ctl, const char *path, int fd, struct checkpoint_seen *seen, json_t *facts)
{
    struct checkpoint_reader *reader = checkpoint_reader_new(fd);
    struct checkpoint_frame frame = { .type = CHECKPOINT_FACTS };
    char why[CHECKPOINT_WHY_SIZE] = "", more;
    int got = reader ? 1 : -ENOMEM;
    while (got == 1 && (got = checkpoint_read(reader, &frame, why)) == 1) {
        take_frame(seen, facts, &frame);
        if (frame.type == CHECKPOINT_END)
            break;
    }
    checkpoint_reader_free(reader);
    if (got == 1 && read(fd, &more, 1) == 1) {
        got = -EPROTO;
        snprintf(why, sizeof why, "something follows behind its end");
    }
    return got == 1 ? EXIT_FINE
                    : complain(ctl, EXIT_FAILED, "%s cannot be used: %s", path, got == -ENOMEM ? "no memory" : why);
}

static json_t *kinds_of(const struct checkpoint_seen *seen)
{
    json_t *kinds = json_array();
    for (size_t i = 0; i < CHECKPOINT_KINDS_MOST; i++)
        if (seen->kinds[i].named)
            json_array_append_new(kinds, json_pack("{s:o, s:I, s:I, s:I}", "kind", json_text(seen->kinds[i].name),
                                                   "objects", (json_int_t)seen->kinds[i].objects, "parts",
                                                   (json_int_t)seen->kinds[i].parts, "bytes",
                                                   (json_int_t)seen->kinds[i].bytes));
    return kinds;
}

static const char *fact(json_t *facts, const char *name)
{
    const char *value = json_string_value(json_object_get(facts, name));
    return value ? value : "?";
}

static void print_all(const char *path, const struct checkpoint_seen *seen, json_t *facts)
{
    printf("%s: checkpoint, format %s, of %s (pid %s on %s), made by Flyt %s\n", path, fact(facts, "version"),
           fact(facts, "executable"), fact(facts, "pid"), fact(facts, "host"), fact(facts, "flyt"));
    for (size_t i = 0; i < CHECKPOINT_KINDS_MOST; i++) {
        const struct kind_seen *kind = &seen->kinds[i];
        if (kind->named && (kind->objects || kind->bytes))
            printf("  %-40s %8llu  %10.1f MiB\n", kind->name, (unsigned long long)kind->objects,
                   (double)kind->bytes / (1 << 20));
    }
    printf("  %llu parts, %.1f MiB; %s\n", (unsigned long long)seen->parts, (double)seen->bytes / (1 << 20),
           seen->hashed ? "all checksums are right" : "all checksums are right (without one of the whole file)");
}

int command_checkpoint_show(struct flytctl *ctl)
{
    const char *path = ctl->argv[0];
    int fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return complain(ctl, EXIT_FAILED, "%s cannot be read: %s", path, strerror(errno));
    struct checkpoint_seen *seen = calloc(1, sizeof *seen);
    json_t *facts = json_object();
    int code = seen ? read_file(ctl, path, fd, seen, facts) : complain(ctl, EXIT_FAILED, "no memory");
    if (!code && ctl->json) {
        json_t *all = json_pack("{s:O, s:o, s:I, s:I, s:b}", "facts", facts, "kinds", kinds_of(seen), "parts",
                                (json_int_t)seen->parts, "bytes", (json_int_t)seen->bytes, "hashed", (int)seen->hashed);
        json_dumpf(all, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(all);
    } else if (!code) {
        print_all(path, seen, facts);
    }
    json_decref(facts);
    free(seen);
    if (fd != STDIN_FILENO)
        close(fd);
    return code;
}
