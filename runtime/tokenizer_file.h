/*
 * tokenizer_file.h - the packed tokenizer: what the packer writes and runtime/tokenizer.c maps.
 *
 * Little-endian; sections lie in the order of the header, each at a multiple of 8 bytes and counted
 * in its own records. Strings are in the text section, as at and bytes.
 */
#ifndef SC_TOKENIZER_FILE_H
#define SC_TOKENIZER_FILE_H

#include <stddef.h>
#include <stdint.h>

#define SC_TOKENIZER_MAGIC "SCTOKEN2"
#define SC_TOKENIZER_NONE UINT32_MAX
#define SC_TOKENIZER_STEPS_MAX 64
#define SC_TOKENIZER_SPECIALS_MAX 16
#define SC_TOKENIZER_PAIR_BITS_MAX ((uint64_t)1 << 20)

typedef enum {
    SC_MODEL_BPE = 0,     /* characters, merged by the ranks of pairs */
    SC_MODEL_SPM = 1,     /* characters, merged where the whole has the best rank of its own */
    SC_MODEL_UNIGRAM = 2, /* the cut into tokens with the greatest sum of scores */
    SC_MODEL_COUNT
} sc_model_kind;

enum {                                 /* of the tokenizer */
       SC_TOKENIZER_IGNORE_MERGES = 1, /* a whole word in the vocabulary is taken as it is */
       SC_TOKENIZER_BYTE_FALLBACK = 2, /* a character without a token becomes its bytes' tokens */
       SC_TOKENIZER_FUSE_UNK = 4,      /* unknown characters in a row are one unk */
       SC_TOKENIZER_JOIN_SPACES = 8,   /* decoding puts a space between two tokens */
       SC_TOKENIZER_WORDS = 16         /* some added token wants to be a single word */
};

enum { /* of a token */
       SC_TOKEN_SPECIAL = 1,
       SC_TOKEN_LSTRIP = 4,
       SC_TOKEN_RSTRIP = 8,
       SC_TOKEN_SINGLE_WORD = 16,
       SC_TOKEN_BYTE = 32,  /* decodes to one byte, and in a run with others like it */
       SC_TOKEN_ABSENT = 64 /* an id that nothing stands for */
};

typedef enum {                    /* what a step does; * to the bytes beyond ASCII with utf8proc */
               SC_STEP_NFC,       /* * */
               SC_STEP_NFD,       /* * */
               SC_STEP_NFKC,      /* * */
               SC_STEP_NFKD,      /* * */
               SC_STEP_LOWERCASE, /* * */
               SC_STEP_STRIP_ACCENTS, /* * drops marks */
               SC_STEP_CHARSMAP,      /* * SentencePiece's compiled map, which is text: see to */
               SC_STEP_NMT,           /* drops controls, makes spaces of the odd ones */
               SC_STEP_STRIP,         /* white space, how: SC_STRIP_LEFT | SC_STRIP_RIGHT */
               SC_STEP_PREPEND,       /* text in front */
               SC_STEP_PREFIX,        /* text in front unless it is there; how: SC_PREFIX_… */
               SC_STEP_REPLACE,       /* text, or matches of it if how is SC_PATTERN, by to */
               SC_STEP_SPLIT,         /* at text, or at matches of it; how: sc_split | SC_PATTERN |
                                         SC_INVERT */
               SC_STEP_BYTES,         /* every byte to its letter in GPT-2's alphabet */
               SC_STEP_COUNT
} sc_step_kind;

enum { SC_STRIP_LEFT = 1, SC_STRIP_RIGHT = 2 };
enum { SC_PREFIX_ALWAYS = 0, SC_PREFIX_FIRST = 1 /* only where the text begins */ };

typedef enum { /* what becomes of matches and of what lies between */
               SC_SPLIT_ISOLATED,
               SC_SPLIT_REMOVED, /* matches are dropped */
               SC_SPLIT_MERGED_WITH_PREVIOUS,
               SC_SPLIT_MERGED_WITH_NEXT,
               SC_SPLIT_CONTIGUOUS, /* matches in a row are one */
               SC_SPLIT_COUNT
} sc_split;

enum { SC_SPLIT_MASK = 15, SC_PATTERN = 16, SC_INVERT = 32 };

enum { SC_TRIE_VOCAB, SC_TRIE_ADDED, SC_TRIE_NORMALIZED, SC_TRIES };

typedef struct {
    uint64_t at, count;
} sc_section;

typedef struct {
    char magic[8];
    uint64_t checksum; /* sc_tokenizer_checksum of all bytes behind this field */
    uint64_t bytes;    /* of the whole file */
    uint32_t model;    /* sc_model_kind */
    uint32_t flags;
    uint32_t unk;         /* the id for what has none, or SC_TOKENIZER_NONE */
    uint32_t normalizers; /* as many steps come first and see whole texts, the others words */
    uint32_t longest;     /* bytes of the longest token of the vocabulary */
    uint32_t strip_left;  /* decoding: how many strip characters go from the beginning */
    uint32_t strip_at, strip_bytes; /* that character */
    uint32_t prefix_count, suffix_count;
    uint32_t prefix[SC_TOKENIZER_SPECIALS_MAX]; /* ids before the text with add_special */
    uint32_t suffix[SC_TOKENIZER_SPECIALS_MAX]; /* and after it */
    uint32_t byte_id[256];                      /* with BYTE_FALLBACK */
    double min_score;                           /* Unigram: the least */
    sc_section token;                           /* sc_token_record */
    sc_section merge;          /* BPE: sc_merge_record, a power of two, some slot empty */
    sc_section rank;           /* SPM: uint32_t per token, 0 is merged first */
    sc_section score;          /* Unigram: double per token */
    sc_section pair;           /* BPE, SPM: uint64_t, a power of two; see sc_tokenizer_pair_bit */
    sc_section trie[SC_TRIES]; /* sc_trie_record; the first one is the root, 0 records: empty */
    sc_section step;           /* sc_step_record */
    sc_section text;           /* bytes */
} sc_tokenizer_header;

typedef struct { /* what a token decodes to, */
    uint32_t at, bytes;
    uint32_t first_at, first_bytes; /* and as the first one of a text */
    uint32_t flags;
} sc_token_record;

typedef struct {
    uint32_t left, right; /* left is SC_TOKENIZER_NONE in an empty slot */
    uint32_t rank, id;
} sc_merge_record;

typedef struct {    /* a beginning of some key */
    uint32_t first; /* its children lie at first … first + count - 1, by byte, behind itself */
    uint32_t id;    /* of the key that ends here, or SC_TOKENIZER_NONE */
    uint16_t count;
    uint8_t byte, zero;
} sc_trie_record;

typedef struct {
    uint32_t kind, how;
    uint32_t at, bytes;
    uint32_t to_at, to_bytes;
} sc_step_record;

/* Where to begin looking for a pair; then slot by slot, around the end. */
uint64_t sc_tokenizer_pair_hash(uint32_t left, uint32_t right);

/*
 * The bit, of so many, that is set if some token has these two characters side by side. Where it is
 * not, no merge ever crosses: a text can be merged in parts.
 */
uint64_t sc_tokenizer_pair_bit(int32_t left, int32_t right, uint64_t bits);

/* 64-bit FNV-1a. */
uint64_t sc_tokenizer_checksum(const void *data, size_t bytes);

#endif
