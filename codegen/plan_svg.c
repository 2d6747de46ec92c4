/* plan_svg.c - the pictures of a plan's page: arenas to scale, bytes against length; plan_html.h.
 *
 * Numbers are printed from integers, thousandths of a unit, so that no locale has a say.
 */
#include <math.h>
#include <string.h>

#include "json.h"
#include "plan_html.h"
#include "plan_memory.h"

/* Both pictures are that many units wide, their margins included. */
enum { WIDE = 1000, LEFT = 78, RIGHT = 16 };

void sc_html_text(FILE *out, const char *text) {
    const bool utf8 = sc_json_utf8(text, strlen(text));
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '&')
            fputs("&amp;", out);
        else if (*c == '<')
            fputs("&lt;", out);
        else if (*c == '>')
            fputs("&gt;", out);
        else if (*c == '"')
            fputs("&quot;", out);
        else if (*c == '\'')
            fputs("&#39;", out);
        else if (*c < 0x20 || *c == 0x7f || (*c >= 0x80 && !utf8))
            fputs("\xef\xbf\xbd", out);
        else
            fputc(*c, out);
    }
}

const char *sc_kind_name(sc_kind kind) {
    static const char *const names[] = { "full",   "sliding", "chunked", "indexed",
                                         "states", "slots",   "padding" };
    return names[kind];
}

/* ---- an arena ---- */

static sc_kind kind_of(sc_layer_type type, bool state) {
    if (state)
        return SC_KIND_STATES;
    switch (type) {
    case SC_SLIDING_ATTENTION:
    case SC_HYBRID_SLIDING:
        return SC_KIND_SLIDING;
    case SC_CHUNKED_ATTENTION:
        return SC_KIND_CHUNKED;
    case SC_INDEXED_ATTENTION:
        return SC_KIND_INDEXED;
    default:
        return SC_KIND_FULL;
    }
}

/* Behind the last one; what lies between is padding. */
static void add_stretch(sc_arena *arena, sc_stretch stretch) {
    const sc_stretch *last = arena->stretches ? &arena->stretch[arena->stretches - 1] : NULL;
    const size_t end = last ? last->offset + last->bytes : 0;
    if (!stretch.bytes)
        return;
    if (stretch.offset > end) {
        arena->stretch[arena->stretches++] = (sc_stretch){
            .kind = SC_KIND_PADDING, .layer = -1, .offset = end, .bytes = stretch.offset - end
        };
        arena->kind_bytes[SC_KIND_PADDING] += stretch.offset - end;
    }
    arena->stretch[arena->stretches++] = stretch;
    arena->kind_bytes[stretch.kind] += stretch.bytes;
}

static void add_slots(sc_arena *arena, const sc_plan *plan) {
    for (int i = 0; i < plan->slots; i++) {
        const sc_layer_cache *layer = plan->layer;
        while (layer->slots != i - i % 2)
            layer++;
        add_stretch(arena, (sc_stretch){ .kind = SC_KIND_SLOTS,
                                         .layer = -1,
                                         .offset = plan->slot[i],
                                         .bytes = layer->keys.bytes + layer->values.bytes });
    }
}

int sc_arena_make(sc_arena *arena, sc_pool *pool, const sc_plan *plan, bool host, sc_error *err) {
    sc_plan_buffer_view view;
    size_t most = 2 * (size_t)plan->slots + 1;
    for (int i = 0; i < plan->layers; i++)
        for (int n = 0; sc_plan_buffer(&view, plan, i, n); n++)
            most += 2; /* with padding before it */
    sc_arena a = { .name = host                       ? "host arena"
                           : plan->options.offloading ? "device arena"
                                                      : "cache arena",
                   .bytes = host ? plan->host_bytes : plan->arena_bytes,
                   .stretch = sc_pool_alloc(pool, most, sizeof *a.stretch) };
    if (!a.stretch)
        return sc_oom(err, "drawing the plan");
    for (int i = 0; i < plan->layers; i++)
        for (int n = 0; sc_plan_buffer(&view, plan, i, n); n++)
            if (view.host == host)
                add_stretch(&a, (sc_stretch){ kind_of(plan->config->layer[i].type, view.state), i,
                                              view.buffer.offset, view.buffer.bytes, view });
    if (!host)
        add_slots(&a, plan);
    *arena = a;
    return SC_OK;
}

/* ---- the arena's picture ---- */

static void put_milli(FILE *out, long long milli) {
    fprintf(out, "%lld.%03lld", milli / 1000, milli % 1000);
}

/* bytes of all, in thousandths of the picture's inner width. */
static long long scaled(size_t bytes, size_t all) {
    return llround((double)bytes / (double)all * (WIDE - 2 * RIGHT) * 1000);
}

static void print_stretch_title(FILE *out, const sc_plan *plan, const sc_stretch *s) {
    char text[32];
    fprintf(out, "<title>");
    if (s->layer < 0)
        fprintf(out, "%s", s->kind == SC_KIND_SLOTS ? "a slot of offloaded layers" : "padding");
    else {
        fprintf(out, "layer %d, %s: %s", s->layer,
                sc_layer_type_name(plan->config->layer[s->layer].type), s->view.name);
        if (s->view.index)
            fprintf(out, " %d", s->view.index);
        fprintf(out, " %s %s", s->view.shape, sc_dtype_name(s->view.dtype));
    }
    fprintf(out, ", %zu bytes (%s) at %zu</title>", s->bytes, sc_bytes_text(text, s->bytes),
            s->offset);
}

/* A rectangle from offset on. odd: a shade lighter, to tell neighbours apart. */
static void begin_rect(FILE *out, const sc_arena *arena, sc_kind kind, bool odd, int y, int height,
                       size_t offset, size_t bytes) {
    fprintf(out, "<rect class=\"%s%s\" x=\"", sc_kind_name(kind), odd ? " odd" : "");
    put_milli(out, RIGHT * 1000 + scaled(offset, arena->bytes));
    fprintf(out, "\" y=\"%d\" width=\"", y);
    put_milli(out, scaled(bytes, arena->bytes));
    fprintf(out, "\" height=\"%d\" data-bytes=\"%zu\"", height, bytes);
}

static void print_by_layer(FILE *out, const sc_plan *plan, const sc_arena *arena) {
    fprintf(out, "<g class=\"by-layer\" data-arena-bytes=\"%zu\">\n", arena->bytes);
    for (int i = 0; i < arena->stretches; i++) {
        const sc_stretch *s = &arena->stretch[i];
        begin_rect(out, arena, s->kind, s->layer < 0 ? i % 2 : s->layer % 2, 34, 46, s->offset,
                   s->bytes);
        if (s->layer >= 0)
            fprintf(out, " data-layer=\"%d\"", s->layer);
        fprintf(out, ">");
        print_stretch_title(out, plan, s);
        fprintf(out, "</rect>\n");
    }
    fprintf(out, "</g>\n");
}

/* Numbers over the layers that have room for one. */
static void print_layer_numbers(FILE *out, const sc_arena *arena) {
    enum { DIGIT = 8, GAP = 6 };
    for (int i = 0, next; i < arena->stretches; i = next) {
        const sc_stretch *first = &arena->stretch[i];
        for (next = i + 1; next < arena->stretches && arena->stretch[next].layer == first->layer;
             next++)
            ;
        const sc_stretch *last = &arena->stretch[next - 1];
        char number[16];
        const int digits = snprintf(number, sizeof number, "%d", first->layer);
        const long long from = scaled(first->offset, arena->bytes),
                        to = scaled(last->offset + last->bytes, arena->bytes);
        if (first->layer < 0 || to - from < (digits * DIGIT + GAP) * 1000)
            continue;
        fprintf(out, "<text class=\"number\" x=\"");
        put_milli(out, RIGHT * 1000 + (from + to) / 2);
        fprintf(out, "\" y=\"28\">%s</text>\n", number);
    }
}

static void print_by_kind(FILE *out, const sc_arena *arena) {
    size_t at = 0;
    fprintf(out, "<g class=\"by-kind\" data-arena-bytes=\"%zu\">\n", arena->bytes);
    for (sc_kind kind = 0; kind < SC_KINDS; kind++) {
        const size_t bytes = arena->kind_bytes[kind];
        char text[32];
        if (!bytes)
            continue;
        begin_rect(out, arena, kind, false, 86, 20, at, bytes);
        fprintf(out, "><title>%s: %zu bytes (%s)</title></rect>\n", sc_kind_name(kind), bytes,
                sc_bytes_text(text, bytes));
        at += bytes;
    }
    fprintf(out, "</g>\n");
}

static void print_arena_axis(FILE *out, const sc_arena *arena) {
    enum { TICKS = 4 };
    for (int i = 0; i <= TICKS; i++) {
        const int x = RIGHT + (WIDE - 2 * RIGHT) * i / TICKS;
        const size_t bytes =
            arena->bytes / TICKS * (size_t)i + arena->bytes % TICKS * (size_t)i / TICKS;
        char text[32];
        fprintf(out, "<path class=\"axis\" d=\"M%d 108v6\"/>", x);
        fprintf(out, "<text class=\"%s\" x=\"%d\" y=\"128\">%s</text>\n",
                i == 0       ? "first"
                : i == TICKS ? "last"
                             : "middle",
                x, i ? sc_bytes_text(text, bytes) : "0");
    }
}

void sc_arena_print_svg(FILE *out, const sc_plan *plan, const sc_arena *arena) {
    char text[32];
    fprintf(out,
            "<div class=\"picture\"><svg viewBox=\"0 0 %d 134\" role=\"img\">\n<title>The %s to "
            "scale</title>\n<desc>%zu bytes (%s):",
            WIDE, arena->name, arena->bytes, sc_bytes_text(text, arena->bytes));
    for (sc_kind kind = 0; kind < SC_KINDS; kind++)
        if (arena->kind_bytes[kind])
            fprintf(out, " %s %zu;", sc_kind_name(kind), arena->kind_bytes[kind]);
    fprintf(out,
            " the tables say which layer has which.</desc>\n"
            "<text class=\"first\" x=\"%d\" y=\"12\">by layer, in the order of addresses; "
            "below, by kind</text>\n",
            RIGHT);
    print_layer_numbers(out, arena);
    print_by_layer(out, plan, arena);
    print_by_kind(out, arena);
    print_arena_axis(out, arena);
    fprintf(out, "</svg></div>\n");
}

/* ---- bytes against length ---- */

const char *sc_curve_name(int curve) {
    static const char *const names[] = { "as the config says", "all layers full",
                                         "on the device, offloaded" };
    return names[curve];
}

/* The same config without windows. */
static int make_full(sc_config *full, sc_pool *pool, const sc_config *config, sc_error *err) {
    const size_t layers = (size_t)config->num_hidden_layers;
    *full = *config;
    full->layer = sc_pool_alloc(pool, layers, sizeof *full->layer);
    if (!full->layer)
        return sc_oom(err, "drawing the plan");
    memcpy(full->layer, config->layer, layers * sizeof *full->layer);
    for (size_t i = 0; i < layers; i++) {
        sc_layer_config *c = &full->layer[i];
        if (!sc_layer_type_rings(c->type))
            continue;
        c->type = c->type == SC_HYBRID_SLIDING ? SC_HYBRID : SC_FULL_ATTENTION;
        c->window = 0;
    }
    return SC_OK;
}

int sc_curves_make(sc_curves *curves, sc_pool *pool, const sc_plan *plan, sc_error *err) {
    enum { FIRST = 256, LEAST = 1 << 17, MOST = 1 << 20 };
    const int64_t positions = plan->config->max_position_embeddings;
    const int64_t last = positions > MOST ? MOST : positions > LEAST ? positions : LEAST;
    sc_config full;
    sc_curves c = { .there = { true, true, plan->options.offloading } };
    int rc = make_full(&full, pool, plan->config, err);
    for (int i = 0; i < plan->layers; i++)
        c.there[2] |= sc_layer_type_has_kv(plan->config->layer[i].type) &&
                      !sc_layer_type_rings(plan->config->layer[i].type);
    for (int64_t length = FIRST; length <= last && !rc; length *= 2) {
        sc_plan_options o = plan->options;
        if (length < o.rewind)
            continue;
        o.max_cache_len = c.length[c.points] = length;
        for (int curve = 0; curve < SC_CURVES && !rc; curve++) {
            sc_memory_sizes sizes = { 0, 0, 0 };
            o.offloading = curve == 2;
            if (c.there[curve])
                rc = sc_memory_try(&sizes, curve == 1 ? &full : plan->config, NULL, &o, err);
            c.bytes[curve][c.points] = sizes.device;
        }
        c.points++;
    }
    if (!rc)
        *curves = c;
    return rc;
}

/* The chart's inside. */
enum { TOP = 14, HIGH = 300, INNER = WIDE - LEFT - 2 * RIGHT };

/* Powers of two that the chart spans from bottom to top. */
typedef struct {
    int low, high;
} span;

static int log2_floor(uint64_t n) { return n ? 63 - __builtin_clzll(n) : 0; }

static span span_of(const sc_curves *curves) {
    span s = { 63, 1 };
    for (int curve = 0; curve < SC_CURVES; curve++)
        for (int i = 0; i < curves->points && curves->there[curve]; i++) {
            const int power = log2_floor(curves->bytes[curve][i]);
            s.low = power < s.low ? power : s.low;
            s.high = power + 1 > s.high ? power + 1 : s.high;
        }
    return s;
}

static long long x_of(const sc_curves *curves, int64_t length) {
    const int first = log2_floor((uint64_t)curves->length[0]);
    const int steps = curves->points > 1 ? curves->points - 1 : 1;
    return LEFT * 1000LL + llround((log2((double)length) - first) / steps * INNER * 1000);
}

static long long y_of(span s, uint64_t bytes) {
    const double power = log2((double)(bytes ? bytes : 1));
    return llround((TOP + HIGH - (power - s.low) / (s.high - s.low) * HIGH) * 1000);
}

static void print_grid(FILE *out, const sc_curves *curves, span s) {
    /* About six lines, each a power of two. */
    const int step = (s.high - s.low + 5) / 6;
    char text[32];
    for (int power = s.low; power <= s.high; power += step) {
        const long long y = y_of(s, UINT64_C(1) << power);
        fprintf(out, "<path class=\"grid\" d=\"M%d ", LEFT);
        put_milli(out, y);
        fprintf(out, "h%d\"/><text class=\"last\" x=\"%d\" y=\"", INNER, LEFT - 8);
        put_milli(out, y + 4000);
        fprintf(out, "\">%s</text>\n", sc_bytes_text(text, 1ULL << power));
    }
    for (int i = 0; i < curves->points; i++) {
        const int64_t length = curves->length[i];
        fprintf(out, "<path class=\"axis\" d=\"M");
        put_milli(out, x_of(curves, length));
        fprintf(out, " %dv6\"/><text class=\"middle\" x=\"", TOP + HIGH);
        put_milli(out, x_of(curves, length));
        fprintf(out, length < 1024 ? "\" y=\"%d\">%lld</text>\n" : "\" y=\"%d\">%lld Ki</text>\n",
                TOP + HIGH + 20, (long long)(length < 1024 ? length : length / 1024));
    }
    fprintf(out,
            "<text class=\"middle\" x=\"%d\" y=\"%d\">max_cache_len, tokens; both scales double"
            "</text>\n",
            LEFT + INNER / 2, TOP + HIGH + 42);
}

/* Where the plan itself stands. */
static void print_marker(FILE *out, const sc_plan *plan, const sc_curves *curves) {
    const int64_t length = plan->options.max_cache_len;
    if (length < curves->length[0] || length > curves->length[curves->points - 1])
        return;
    fprintf(out, "<path class=\"marker\" d=\"M");
    put_milli(out, x_of(curves, length));
    fprintf(out, " %dv%d\"><title>this plan: max_cache_len %lld</title></path>\n", TOP, HIGH,
            (long long)length);
}

static void print_curve(FILE *out, const sc_curves *curves, span s, int curve) {
    char text[32];
    fprintf(out, "<g class=\"curve%d\"><polyline points=\"", curve);
    for (int i = 0; i < curves->points; i++) {
        fprintf(out, i ? " " : "");
        put_milli(out, x_of(curves, curves->length[i]));
        fprintf(out, ",");
        put_milli(out, y_of(s, curves->bytes[curve][i]));
    }
    fprintf(out, "\"/>\n");
    for (int i = 0; i < curves->points; i++) {
        const uint64_t bytes = curves->bytes[curve][i];
        fprintf(out, "<circle r=\"4\" cx=\"");
        put_milli(out, x_of(curves, curves->length[i]));
        fprintf(out, "\" cy=\"");
        put_milli(out, y_of(s, bytes));
        fprintf(out,
                "\" data-bytes=\"%llu\"><title>%s, max_cache_len %lld: %llu bytes (%s)</title>"
                "</circle>\n",
                (unsigned long long)bytes, sc_curve_name(curve), (long long)curves->length[i],
                (unsigned long long)bytes, sc_bytes_text(text, bytes));
    }
    fprintf(out, "</g>\n");
}

void sc_curves_print_svg(FILE *out, const sc_plan *plan, const sc_curves *curves) {
    const span s = span_of(curves);
    fprintf(out,
            "<div class=\"picture\"><svg viewBox=\"0 0 %d %d\" role=\"img\">\n<title>Bytes of the "
            "cache against max_cache_len</title>\n<desc>The table below has every point.</desc>\n",
            WIDE, TOP + HIGH + 50);
    print_grid(out, curves, s);
    print_marker(out, plan, curves);
    /* The one that the plan is stands on top. */
    for (int i = 0; i < SC_CURVES; i++) {
        const int curve = (i + 1) % SC_CURVES;
        if (curves->there[curve])
            print_curve(out, curves, s, curve);
    }
    fprintf(out, "</svg></div>\n");
}
