/*
 * jinja_unicode.h - Python's strings over UTF-8: lengths and places in code points, and what a
 * character is. Texts are valid UTF-8 throughout.
 *
 * Case goes one character to one (Python's title-case and special cases such as the Greek final
 * sigma are left out; ß becomes SS).
 */
#ifndef SC_JINJA_UNICODE_H
#define SC_JINJA_UNICODE_H

#include "jinja_value.h"

/* Bytes of the character that begins here, and what it is. */
size_t sc_j_char(const char *at, int32_t *code);
/* Its UTF-8; the bytes written, at most 4. */
size_t sc_j_encode(char out[4], int32_t code);
size_t sc_j_chars(const char *text, size_t bytes);
/* The byte at which character number index begins; bytes when there are fewer. */
size_t sc_j_offset(const char *text, size_t bytes, size_t index);

bool sc_j_space(int32_t code);     /* str.isspace */
bool sc_j_printable(int32_t code); /* str.isprintable */
bool sc_j_line_end(int32_t code);  /* where str.splitlines cuts */

/* Without white space (chars unset or none), or without any of the characters of chars, at the ends
 * that are named. */
sc_jvalue sc_j_strip(sc_jvalue s, sc_jvalue chars, bool left, bool right);
/* The first place of part at or behind from, in bytes; -1: none. Counts its work. */
int64_t sc_j_search(sc_jrun *run, sc_jvalue s, sc_jvalue part, size_t from);
/* most below 0: all. */
sc_jvalue sc_j_replace(sc_jrun *run, sc_jvalue s, sc_jvalue old, sc_jvalue new, int64_t most);
/* A list of lines without their ends. */
sc_jvalue sc_j_lines(sc_jrun *run, sc_jvalue s, bool keep_ends);

typedef enum { SC_J_UPPER, SC_J_LOWER, SC_J_SWAP, SC_J_CAPITALIZE, SC_J_TITLE } sc_jcase;
sc_jvalue sc_j_recase(sc_jrun *run, sc_jvalue s, sc_jcase to);

/* The questions of str.isalpha and its like: every character answers, and there is one. */
typedef enum {
    SC_J_ALPHA,
    SC_J_DIGIT,
    SC_J_ALNUM,
    SC_J_SPACE,
    SC_J_IS_UPPER,
    SC_J_IS_LOWER
} sc_jclass;
bool sc_j_all(sc_jvalue s, sc_jclass class);

#endif
