/* A published matrix, and what its format says of it. Inside io/published*. */
#ifndef IO_PUBLISHED_KIND_H
#define IO_PUBLISHED_KIND_H

#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "io/weight.h"

enum {
    MC_PART_CODES,
    MC_PART_SCALES,
    MC_PART_ZEROS,
    MC_PART_ORDER, /* the group of each column */
    MC_PART_WHOLE, /* a factor of all of it */
    MC_PART_SHAPE,
    MC_PARTS
};

/* What config.json says of all matrices, and tensors do not show. */
typedef struct mc_published_facts {
    int64_t groups[8]; /* group sizes that are named; -1: a row */
    size_t n_groups;
    int64_t bits;     /* of a code; 0: unsaid */
    int64_t block[2]; /* rows and columns of a block of fp8 */
    bool v2;          /* GPTQ's zero points are as they are, not less by one */
    bool symmetric;   /* zero points are in the middle */
    bool shuffled;    /* columns of a group may lie apart */
    bool powers;      /* scales of fp8 are powers of two */
} mc_published_facts;

typedef struct mc_published mc_published;

/* A format: a row of the table in published.c. */
typedef struct mc_published_kind {
    const char *what;
    const char *codes;                 /* ending of the tensor of codes */
    const char *dtype;                 /* of codes: "I32" */
    const char *scales[2];             /* in the place of that ending: the first that there is */
    const char *scales_dtype;          /* NULL: any but U8 and F8_E4M3 */
    const char *parts[MC_PARTS];       /* the same of the others; NULL: none */
    bool inverse;                      /* the factor of all divides */
    bool turned;                       /* words of codes are MLX's, as [words, rows] */
    mica_quant_mode mode;              /* whose codes and scales these are; AFFINE: none's */
    bool (*is)(const mc_published *m); /* whether the shapes are of this one; NULL: yes */
    mica_status (*fit)(const mc_published_facts *facts, mc_published *m);
    /* Of integers: the codes of a row, a byte each, and the zero point of a row's group. */
    void (*codes_of)(const mc_published *m, int64_t row, uint8_t *codes);
    mica_status (*zero_of)(const mc_published *m, int64_t row, int64_t group, int *zero);
    /* Of floats: the values of a row, without scales. */
    void (*values_of)(const mc_published *m, int64_t row, float *values);
} mc_published_kind;

/* What a matrix is seen as. */
typedef enum mc_published_way {
    MC_WAY_FLOATS,
    MC_WAY_EIGHT,  /* 8 bits, affine: quantised anew */
    MC_WAY_CODES,  /* integers: codes as they are, affine */
    MC_WAY_POWERS, /* mxfp8, its scales powers of two */
    MC_WAY_ROWS,   /* mxfp8 without scales, and factors of rows */
    MC_WAY_SAME    /* codes and scales as they are, perhaps with factors of rows */
} mc_published_way;

struct mc_published {
    const mc_published_kind *kind;
    const char *module; /* the name without ending */
    const mc_weight_tensor *part[MC_PARTS];
    int64_t matrices, out, in; /* matrices of experts in one tensor, or 1 */
    int bits;                  /* of a code */
    bool stacked;              /* there is an axis for the matrices */
    int64_t block_rows, group; /* rows and columns that share a scale */
    int64_t matrix_scales,
        row_scales;        /* from one matrix's to the next one's, and of blocks' rows */
    bool whole;            /* no code is in two words, whose last bits may be nobody's */
    bool turned;           /* scales are [groups, rows] */
    bool plus_one;         /* zero points are stored less one */
    bool plain;            /* column i is of group i / group */
    const int32_t *sorted; /* [in] the columns in the order of their groups, where codes and scales
                              are kept in it; NULL: in their own */
    mc_published_way way;
    mica_quant quant; /* bits 0: floats */
    mica_dtype dtype; /* of floats, or of affine scales */
    bool exact;
    uint64_t bytes, made; /* in the files, and as it is seen */
};

typedef enum mc_made_part {
    MC_MADE_CODES, /* or elements */
    MC_MADE_SCALES,
    MC_MADE_BIASES,
    MC_MADE_GAINS
} mc_made_part;

/* What a tensor is that is made of a published matrix. */
typedef struct mc_made {
    const mc_published *from;
    mc_made_part part;
    const void *same; /* not NULL: its bytes, which are unaligned */
} mc_made;

extern const mc_published_kind mc_published_packed, mc_published_int8, mc_published_gptq,
    mc_published_awq, mc_published_fp8, mc_published_e5m2, mc_published_mxfp8, mc_published_mxfp4,
    mc_published_nvfp4, mc_published_nvfp4_packed;

/* An error of a part: "file: tensor 'name': <text>". */
mica_status mc_published_bad(const mc_weight_tensor *t, mica_status status, const char *fmt, ...)
    MC_PRINTF(3, 4);

bool mc_published_is_kind(const mc_weight_tensor *t, const char *kind);

/* The number of elements. */
int64_t mc_published_size(const mc_weight_tensor *t);

/* The i-th element of a tensor of floats, or of scales that are F8_E4M3, or powers of two in U8 or
 * F8_E8M0. */
float mc_published_number(const mc_weight_tensor *t, int64_t i);

/* The value of an e4m3 without infinities. */
float mc_published_e4m3(uint8_t x);

/* The scale of a row, among the rows of all matrices, and a group of its columns. */
float mc_published_scale(const mc_published *m, int64_t row, int64_t group);

/* Sets *power to the exponent of a scale, as frexp has it: one more than that of the power of two.
 * false: it is none, or beyond those of mxfp8. */
bool mc_published_power(const mc_published *m, int64_t row, int64_t group, int *power);

/* The number of groups in a row. */
int64_t mc_published_groups(const mc_published *m);

/* Finds which columns share a scale where a row has `groups` of them.
 * errors  MICA_ESHAPE no size that the config names gives as many */
mica_status mc_published_find_group(const mc_published_facts *facts, int64_t groups,
                                    mc_published *m);

/* Reads rows, groups and blocks off the shape of scales that belong to blocks of `rows` x
 * `columns`, to rows, or to matrices. errors  MICA_ESHAPE, MICA_EDTYPE */
mica_status mc_published_find_grid(int64_t rows, int64_t columns, mc_published *m);

/* Reads matrices, rows, and columns of `codes` of so many numbers each. errors  MICA_ESHAPE */
mica_status mc_published_find_rows(int64_t numbers, mc_published *m);

/* How many columns share a scale of ours, of 128, 64 and 32: those that all have one of the
 * file's; 0: there are none. */
int mc_published_our_group(int64_t group, int64_t in);

#endif
