/*
 * cmd_checkpoint.c: shows what is in the file of a checkpoint (cpu/checkpoint). The whole file is read and checked.
 * The tags of an encrypted file show whether somebody has changed it. They are checked only if the key is given.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control-managers/flytctl/flytctl.h"
#include "cpu/checkpoint/checkpoint.h"
#include "cpu/common/secret.h"

#define KEY_OPTION { "key", 0, "FILE", "the key of an encrypted checkpoint (flytctl checkpoint key)", false }
const struct option_row checkpoint_show_options[] = { KEY_OPTION, { 0 } };
enum { ID_TEXT = 2 * CHECKPOINT_KEY_ID + 1 };

struct kind_seen {
    char name[128];
    uint64_t objects, parts, bytes, kept; /* kept: bytes of the checkpoint before */
    bool named;
};
struct checkpoint_seen {
    struct kind_seen kinds[CHECKPOINT_KINDS_MOST];
    uint64_t parts, bytes, kept;
    bool hashed, sealed, opened;   /* opened: its tags were checked */
    char key[ID_TEXT];             /* which it needs; "": nobody's */
};

int checkpoint_key_file(struct flytctl *ctl, const char *path, uint8_t *key)
{
    char error[EXPLAIN_SIZE];
    struct secret text;
    if (secret_read(path, &text, error))
        return complain(ctl, EXIT_FAILED, "%s", error);
    bool good = checkpoint_key_parse(text.bytes, text.size, key);
    secret_wipe(&text);
    return good ? EXIT_FINE : complain(ctl, EXIT_FAILED, "%s holds no key of 64 hexadecimal digits", path);
}

static void id_text(const uint8_t id[CHECKPOINT_KEY_ID], char text[ID_TEXT])
{
    for (int i = 0; i < CHECKPOINT_KEY_ID; i++)
        snprintf(text + 2 * i, 3, "%02x", id[i]);
}

static void take_seal(struct checkpoint_seen *seen, const struct checkpoint_frame *frame)
{
    uint8_t id[CHECKPOINT_KEY_ID];
    seen->sealed = true;
    if (checkpoint_seal_key_id(frame->data, id))
        id_text(id, seen->key);
}


static void take_facts(json_t *facts, const struct checkpoint_frame *frame)
{
    static const char *const names[] = { "version", "flyt", "created", "host", "pid", "executable", "devices",
                                         "driver", "id", "base", "base_file", "window", "window_size", "granularity" };
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
    case CHECKPOINT_SEAL:
        take_seal(seen, frame);
        break;
    case CHECKPOINT_KEPT:
        kind->kept += frame->size;
        seen->kept += frame->size;
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

static int complain_key(struct flytctl *ctl, const char *path, const uint8_t *key, const char *why)
{
    uint8_t id[CHECKPOINT_KEY_ID];
    char given[ID_TEXT];
    checkpoint_key_id(key, id);
    id_text(id, given);
    return complain(ctl, EXIT_FAILED, "%s cannot be used: %s (--key is that with id %s)", path, why, given);
}

/* Up to its end, and nothing may follow. */
static int read_file(struct flytctl *ctl, const char *path, int fd, const uint8_t *key, struct checkpoint_seen *seen,
                     json_t *facts)
{
    struct checkpoint_reader *reader = checkpoint_reader_new(fd);
    struct checkpoint_frame frame = { .type = CHECKPOINT_FACTS };
    char why[CHECKPOINT_WHY_SIZE] = "", more;
    int got = reader ? 1 : -ENOMEM;
    if (reader && key)
        checkpoint_reader_machine_key(reader, key);
    while (got == 1 && (got = checkpoint_read(reader, &frame, why)) == 1) {
        take_frame(seen, facts, &frame);
        if (frame.type == CHECKPOINT_END)
            break;
    }
    checkpoint_reader_free(reader);
    seen->opened = seen->sealed && key;
    if (got == 1 && read(fd, &more, 1) == 1) {
        got = -EPROTO;
        snprintf(why, sizeof why, "something follows behind its end");
    }
    return got == 1        ? EXIT_FINE
           : got == -EACCES ? complain_key(ctl, path, key, why)
                            : complain(ctl, EXIT_FAILED, "%s cannot be used: %s", path, *why ? why : "no memory");
}

static json_t *kinds_of(const struct checkpoint_seen *seen)
{
    json_t *kinds = json_array();
    for (size_t i = 0; i < CHECKPOINT_KINDS_MOST; i++)
        if (seen->kinds[i].named)
            json_array_append_new(kinds, json_pack("{s:o, s:I, s:I, s:I, s:I}", "kind", json_text(seen->kinds[i].name),
                                                   "objects", (json_int_t)seen->kinds[i].objects, "parts",
                                                   (json_int_t)seen->kinds[i].parts, "bytes",
                                                   (json_int_t)seen->kinds[i].bytes, "kept",
                                                   (json_int_t)seen->kinds[i].kept));
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
        if (kind->named && (kind->objects || kind->bytes || kind->kept))
            printf("  %-40s %8llu  %10.1f MiB\n", kind->name, (unsigned long long)kind->objects,
                   (double)(kind->bytes + kind->kept) / (1 << 20));
    }
    if (seen->sealed && *seen->key)
        printf("  encrypted (AES-256-GCM); the key has the id %s\n", seen->key);
    else if (seen->sealed)
        printf("  encrypted (AES-256-GCM); only the process that wrote it has the key\n");
    if (*fact(facts, "base") != '?')
        printf("  changes: %.1f MiB; %.1f MiB are those of checkpoint %s (%s)\n", (double)seen->bytes / (1 << 20),
               (double)seen->kept / (1 << 20), fact(facts, "base"), fact(facts, "base_file"));
    printf("  %llu parts, %.1f MiB; %s%s\n", (unsigned long long)seen->parts,
           (double)(seen->bytes + seen->kept) / (1 << 20),
           seen->hashed ? "all checksums are right" : "all checksums are right (without one of the whole file)",
           !seen->sealed  ? ""
           : seen->opened ? ", and all tags"
                          : "; the tags, which need the key (--key), were not checked: only they show changes");
}

int command_checkpoint_show(struct flytctl *ctl)
{
    const char *path = ctl->argv[0], *key_file = option(ctl, "key");
    uint8_t key[CHECKPOINT_KEY];
    if (key_file && checkpoint_key_file(ctl, key_file, key))
        return EXIT_FAILED;
    int fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return complain(ctl, EXIT_FAILED, "%s cannot be read: %s", path, strerror(errno));
    struct checkpoint_seen *seen = calloc(1, sizeof *seen);
    json_t *facts = json_object();
    int code = seen ? read_file(ctl, path, fd, key_file ? key : NULL, seen, facts)
                    : complain(ctl, EXIT_FAILED, "no memory");
    if (!code && ctl->json) {
        json_t *all = json_pack("{s:O, s:o, s:I, s:I, s:I, s:b, s:b, s:o, s:b}", "facts", facts, "kinds",
                                kinds_of(seen), "parts", (json_int_t)seen->parts, "bytes", (json_int_t)seen->bytes,
                                "kept", (json_int_t)seen->kept, "hashed", (int)seen->hashed, "encrypted",
                                (int)seen->sealed, "key", *seen->key ? json_text(seen->key) : json_null(), "opened",
                                (int)seen->opened);
        json_dumpf(all, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(all);
    } else if (!code) {
        print_all(path, seen, facts);
    }
    json_decref(facts);
    free(seen);
    checkpoint_key_wipe(key, sizeof key);
    if (fd != STDIN_FILENO)
        close(fd);
    return code;
}

int command_checkpoint_key(struct flytctl *ctl)
{
    const char *path = ctl->argv[0];
    char text[SECRET_TEXT_SIZE + 1], error[EXPLAIN_SIZE], name[ID_TEXT];
    uint8_t key[CHECKPOINT_KEY], id[CHECKPOINT_KEY_ID];
    struct stat there;
    if (lstat(path, &there) == 0)
        return complain(ctl, EXIT_BUSY, "%s is there already: without its key a checkpoint cannot be read", path);
    if (secret_make(text) || !checkpoint_key_parse(text, strlen(text), key))
        return complain(ctl, EXIT_FAILED, "no random bytes");
    int failure = secret_write_for_daemon(path, text, strlen(text), error);
    checkpoint_key_id(key, id);
    id_text(id, name);
    checkpoint_key_wipe(text, sizeof text);
    checkpoint_key_wipe(key, sizeof key);
    if (failure)
        return complain(ctl, EXIT_FAILED, "%s", error);
    report(ctl, json_pack("{s:o, s:s}", "file", json_text(path), "key", name), "%s is a new key, with the id %s", path,
           name);
    return EXIT_FINE;
}
