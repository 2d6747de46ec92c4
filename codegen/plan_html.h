/*
 * plan_html.h - a plan as one page to look at: `slipcast plan --html FILE`.
 *
 * The page stands alone: no network, no font, no file beside it; light and dark by the reader's
 * preference. All is there without JavaScript, which adds a line that reads out what the pointer is
 * on. It is well-formed XML too. What comes from the model is escaped. The bytes follow from model
 * and options alone: no time, no path, no locale.
 */
#ifndef SC_PLAN_HTML_H
#define SC_PLAN_HTML_H

#include "plan.h"

/* Writes the page to path, whole or not at all. given_batch: lengths that fit are for the plan's
 * batch_size alone. SC_EENV: "PATH: strerror"; else as sc_plan_make, which draws the curves. */
int sc_plan_write_html(const char *path, sc_pool *pool, const sc_plan *plan, bool given_batch,
                       sc_error *err);

/* The page itself. out's errors are the caller's to ask for. */
int sc_plan_print_html(FILE *out, sc_pool *pool, const sc_plan *plan, bool given_batch,
                       sc_error *err);

/* ---- plan_svg.c: the pictures in it ---- */

/* A text of the model between tags or in quotes; what no page may hold becomes U+FFFD. */
void sc_html_text(FILE *out, const char *text);

/* What a stretch of an arena holds. */
typedef enum {
    SC_KIND_FULL,
    SC_KIND_SLIDING,
    SC_KIND_CHUNKED,
    SC_KIND_INDEXED, /* keys, values and the indexer's keys of indexed layers */
    SC_KIND_STATES,
    SC_KIND_SLOTS, /* that offloaded layers take turns in */
    SC_KIND_PADDING,
    SC_KINDS
} sc_kind;
const char *sc_kind_name(sc_kind kind);

/* A stretch of an arena, in the order of addresses; they fill it without a gap. */
typedef struct {
    sc_kind kind;
    int layer; /* -1: slots and padding */
    size_t offset, bytes;
    sc_plan_buffer_view view; /* of a layer's buffer */
} sc_stretch;

typedef struct {
    const char *name; /* "cache arena", "device arena", "host arena" */
    size_t bytes;
    int stretches;
    sc_stretch *stretch;
    size_t kind_bytes[SC_KINDS];
} sc_arena;

/* The device's arena, or with host the host's. */
int sc_arena_make(sc_arena *arena, sc_pool *pool, const sc_plan *plan, bool host, sc_error *err);

/* To scale: by address, and sorted by kind. */
void sc_arena_print_svg(FILE *out, const sc_plan *plan, const sc_arena *arena);

/* Bytes of the cache at powers of two. */
enum { SC_CURVES = 3, SC_CURVE_POINTS = 16 };
typedef struct {
    int points;
    int64_t length[SC_CURVE_POINTS];
    bool there[SC_CURVES];                      /* device: something can be offloaded */
    uint64_t bytes[SC_CURVES][SC_CURVE_POINTS]; /* as the config says, all layers full, device */
} sc_curves;
const char *sc_curve_name(int curve);

/* Plans the cache from 256 tokens to max_position_embeddings, at least 128 Ki, at most 1 Mi. */
int sc_curves_make(sc_curves *curves, sc_pool *pool, const sc_plan *plan, sc_error *err);
void sc_curves_print_svg(FILE *out, const sc_plan *plan, const sc_curves *curves);

#endif
