/*
 * secret.h: secrets in files with checked permissions, and proofs of knowing one (control_prot.x, CTL_AUTH).
 */
#ifndef FLYT_COMMON_SECRET_H
#define FLYT_COMMON_SECRET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    SECRET_MAX_SIZE = 4096,
    SECRET_STORED_SIZE = 32,
    SECRET_PROOF_SIZE = 32,
    SECRET_TEXT_SIZE = 64,
    SECRET_BINDING_SIZE = 32
};

struct secret { size_t size; uint8_t bytes[SECRET_MAX_SIZE]; };

/* Reads a secret; a newline at the end is no part of it. Refused (-EPERM, error says the chmod that mends it): a file
   that group or others may write or others may read, that belongs to neither this user nor root, or is no regular
   file. A file that the group may read is accepted. Empty or longer than SECRET_MAX_SIZE: -EINVAL. */
int  secret_read(const char *path, struct secret *, char *error);
/* "file:/path", "env:NAME", or the text itself (refused when literal_allowed is false: -EPERM). */
int  secret_resolve(const char *source, bool literal_allowed, struct secret *, char *error);
/* A file of mode 0600, replaced atomically, synced. */
int  secret_write(const char *path, const void *bytes, size_t size, char *error);
/* Writes a secret that a daemon of this machine is to read. /etc/flyt is root's, of group flyt, with the setgid
   bit: what root writes there belongs to that group, which may then read it (mode 0640). Elsewhere, and for others than
   root: 0600. */
int  secret_write_for_daemon(const char *path, const void *bytes, size_t size, char *error);
void secret_wipe(struct secret *);
/* 32 random bytes as text of hexadecimal digits. text: SECRET_TEXT_SIZE + 1 bytes. 0 or -EIO. */
int  secret_make(char *text);

/* Checks what secret_read checks of permissions, for an open descriptor. */
int  secret_check_fd(int fd, const char *path, char *error);

/* The verifier that may be kept. */
void secret_stored(const struct secret *, uint8_t stored[SECRET_STORED_SIZE]);
void secret_proof(const struct secret *, const uint8_t *transcript, size_t size, uint8_t proof[SECRET_PROOF_SIZE]);
bool secret_verify(const uint8_t stored[SECRET_STORED_SIZE], const uint8_t *transcript, size_t size,
                   const uint8_t proof[SECRET_PROOF_SIZE]);
/* The listener's proof to the caller, who has proved itself, that it knows the same secret. */
void secret_answer(const uint8_t stored[SECRET_STORED_SIZE], const uint8_t *transcript, size_t size,
                   uint8_t answer[SECRET_PROOF_SIZE]);
bool secret_answer_verify(const struct secret *, const uint8_t *transcript, size_t size,
                          const uint8_t answer[SECRET_PROOF_SIZE]);
/* What both sides sign: caller's nonce, listener's nonce, role, name. Returns the size. */
size_t secret_transcript(const uint8_t caller[32], const uint8_t listener[32], uint32_t role, const char *name,
                         uint8_t *out, size_t capacity);
/* Binds the transcript to a connection: whoever passes proofs on between two connections has two bindings. Returns the
   new size; 0: no room (SECRET_BINDING_SIZE + 1 bytes). */
size_t secret_bind(uint8_t *transcript, size_t size, size_t capacity, const uint8_t binding[SECRET_BINDING_SIZE]);

#endif
