/*
 * config_read.h - reading one config's keys: what config*.c and families/ share.
 *
 * The first failure sticks in the reader, so that reading is a plain list of calls; each value read
 * is recorded with its origin. Keys are the class's public names; a family's aliases say under
 * which other name its files hold one.
 */
#ifndef SC_CONFIG_READ_H
#define SC_CONFIG_READ_H

#include "config.h"

enum {
    SC_NULL = -1,         /* a default that is null: another thing than zero */
    SC_LARGEST = 1 << 30, /* number of a config: the product of two fits in 64 bits */
    SC_MOST_LAYERS = 4096,
};

typedef struct {
    sc_config *config;
    sc_pool *pool;
    const cJSON *outer; /* the whole file */
    const cJSON *json;  /* the text config */
    const char *file;   /* base name of the path */
    const char *prefix; /* "text_config." or "" */
    sc_error *err;
    int rc;
} sc_reader;

/* The item of that key, by either of its names; NULL: absent. Two names that disagree fail. */
const cJSON *sc_read_item(sc_reader *r, const char *key);
/* A whole number in 1 … SC_LARGEST; absent: fallback, which may be
 * SC_NULL. Null is 0, or fails. */
int64_t sc_read_count(sc_reader *r, const char *key, int64_t fallback, bool null_ok);
/* A whole number from 0 on. */
int64_t sc_read_from_zero(sc_reader *r, const char *key, int64_t fallback);
bool sc_read_flag(sc_reader *r, const char *key, bool fallback);
/* A finite number above 0 of an object; where is its prefix in messages. */
double sc_read_real(sc_reader *r, const cJSON *object, const char *where, const char *key,
                    double fallback);
/* The same, and its absence fails. */
double sc_read_real_there(sc_reader *r, const cJSON *object, const char *where, const char *key);

void sc_read_fail(sc_reader *r, const char *key, const char *reason);
/* The value is good, but no graph can be built of it; the first reason stays. */
void sc_read_unsupported(sc_reader *r, const char *key, const char *reason);
/* Two spellings of one setting: with different values, which is meant? */
void sc_read_same(sc_reader *r, const char *a_name, const cJSON *a, const char *b_name,
                  const cJSON *b);
void sc_read_record(sc_reader *r, const char *key, const char *value, const char *from);
void sc_read_record_count(sc_reader *r, const char *key, int64_t value, const char *from);
void sc_read_note(sc_reader *r, const char *text);
const char *sc_read_by_default(const sc_reader *r);
/* A JSON value as a message quotes it. */
const char *sc_read_quote(const sc_reader *r, const cJSON *item);
/* Locale-free: an integer, or the fewest digits that read back. */
const char *sc_read_number_text(sc_pool *pool, double value);

/* config_layers.c: types, widths, sharing; after sizes and window. */
void sc_read_layers(sc_reader *r);
/* config_rope.c */
void sc_read_rope(sc_reader *r);

#endif
