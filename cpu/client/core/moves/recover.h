/*
 * recover.h: the session goes on at another GPU server after its own was lost, and the program notices nothing but the
 * time (docs/elastic.md, "Recovery"). Off unless it was asked for.
 */
#ifndef FLYT_CLIENT_CORE_RECOVER_H
#define FLYT_CLIENT_CORE_RECOVER_H

/* Before the session has a server. wish: "journal", "journal:SIZE", "checkpoint:TIME", "checkpoint:TIME:SIZE", "off";
   NULL or empty: off. Any other wish gives a warning, and is off. */
void recover_setup(const char *wish);
/* Takes the wish from the client manager, which has just been asked for a server. */
void recover_ask(void);
/* Behind these: the program cannot be recovered. Says why, if it was to be. */
void recover_refuse(const char *why);
/* Behind all: what the configuration of the client manager says of journals and checkpoints. */
void recover_bound(void);
/* The session's connection is there, and nothing has been sent but HELLO and what concerns the window. From here on
   what the session sends is written down. */
void recover_watch(void);

/* The session leaves its server: it moves, or is suspended. why: until a checkpoint protects it again. Nothing of its
   own is under way. */
void recover_leaves(const char *why);
/* The session is at another server, which nobody listens to yet. A checkpoint is made soon (keeper.h). */
void recover_arrives(void);

#endif
