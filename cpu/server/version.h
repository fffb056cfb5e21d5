/* version.h: what the server says it is. */
#ifndef FLYT_SERVER_VERSION_H
#define FLYT_SERVER_VERSION_H

#define FLYT_SERVER_VERSION "Flyt 0.1"

#endif
