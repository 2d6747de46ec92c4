/*
 * error.h - the one way a failure travels: a negative code and one line of text.
 *
 * Every function that can fail returns 0 or a negative SC_E… code, fills *err (may be NULL) and
 * leaves its outputs alone. Messages have one form: "file: key: reason (way out)".
 */
#ifndef SC_ERROR_H
#define SC_ERROR_H

enum {
    SC_OK = 0,
    SC_ECHECK = -1, /* a check said no: exit 1 */
    SC_EUSAGE = -2, /* the caller's options or arguments: exit 2 */
    SC_EINPUT = -3, /* config, weights, tokenizer, saved cache: exit 3 */
    SC_EENV = -4,   /* no memory, no compiler, disk full, no device: exit 4 */
    SC_EFULL = -5,  /* the static shape cannot hold it: exit 3 */
    SC_ESTATE = -6  /* asked at the wrong moment, as padding after the first update: exit 2 */
};

typedef struct {
    int code;
    char message[1024];
} sc_error;

/* Fills err (may be NULL) and returns code. The text is cut at the message's size;
 * control characters in it become "?", so that it stays one line. */
__attribute__((format(printf, 3, 4))) int sc_fail(sc_error *err, int code, const char *format, ...);

/* The exit status of a program that ends with this code: 0, 1, 2, 3 or 4. */
int sc_exit_status(int code);

#endif
