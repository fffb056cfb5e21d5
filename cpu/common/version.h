/*
 * version.h: the release, and the version of this build, such as "1.0+git20261123.153108.927a78c".
 *
 * control-managers/packaging/version makes the version of a build: the release below, and date, time (UTC) and hash
 * of the commit. It reads the line below, so the line's form is fixed. The Makefile hands the result to version.c
 * alone: a commit that changes nothing else compiles this one file and links the programs.
 *
 * 1.0 and not 0.1 (both were in use): the Debian package has been 1.0 from the beginning, and dpkg would take 0.1 for a
 * downgrade.
 */
#ifndef FLYT_COMMON_VERSION_H
#define FLYT_COMMON_VERSION_H

#define FLYT_RELEASE "1.0"

/* VERSION_ROOM: for a program's name, a blank and the version. VERSION_MOST: of a version; both definitions of
   flyt_version have this size, so that link-time optimisation sees one type. */
enum { VERSION_ROOM = 96, VERSION_MOST = 64 };

extern const char flyt_version[VERSION_MOST];

#endif
